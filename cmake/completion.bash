# Prints the kind of value that OPTION of COMMAND takes; OPTION "takes": the kind of its operands.
_tessera_kind()
{
    sed -nE "s/^$1 $2 //p" <<<"$_tessera_options"
}

# Completes $cur as a value of this kind.
_tessera_value()
{
    [ $# -gt 0 ] || return
    local kind=$1 before
    shift
    case $kind in
    words) COMPREPLY=($(compgen -W "$*" -- "$cur")) ;;
    list) # keeps the text before the last comma
        before=${cur%"${cur##*,}"}
        COMPREPLY=($(compgen -P "$before" -W "$*" -- "${cur##*,}"))
        compopt -o nospace
        ;;
    folder) _filedir -d ;;
    file) _filedir "$@" ;;
    named)
        [[ $cur == *=* ]] || return
        cur=${cur#*=}
        _filedir "$@"
        ;;
    model)
        _filedir '@(onnx|tessera)'
        COMPREPLY+=($(compgen -W "$_tessera_zoo" -- "$cur"))
        __ltrim_colon_completions "$cur"
        ;;
    esac
}

_tessera()
{
    local cur prev words cword split command kind
    # Names of models have a colon, --input x=FILE.npy an equals sign.
    _init_completion -s -n : || return
    if [ "$cword" = 1 ]; then
        COMPREPLY=($(compgen -W "$_tessera_commands help --help --version" -- "$cur"))
        return
    fi
    command=${words[1]}
    if [[ $command == help ]]; then
        [ "$cword" != 2 ] || COMPREPLY=($(compgen -W "$_tessera_commands" -- "$cur"))
        return
    fi
    if [[ $prev == -* ]]; then
        kind=$(_tessera_kind "$command" "$prev")
        if [[ -n $kind && $kind != flag ]]; then
            _tessera_value $kind
            return
        fi
    fi
    if [[ $cur == -* ]]; then
        COMPREPLY=($(compgen -W "$(sed -nE "s/^$command (-[^ ]*) .*/\1/p" <<<"$_tessera_options") --help" -- "$cur"))
        return
    fi
    _tessera_value $(_tessera_kind "$command" takes)
} &&
    complete -F _tessera tessera
