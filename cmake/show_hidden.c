/* Makes the hidden symbols of an archive visible, so that tests can call internal functions in a
 * shared library made of its objects. In the library for users these stay hidden.
 * usage: show_hidden ARCHIVE    (of 64-bit ELF objects; it is changed in place) */
#include <ar.h>
#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void show_symbols(Elf64_Sym *symbols, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool is_hidden = ELF64_ST_VISIBILITY(symbols[i].st_other) == STV_HIDDEN;
        bool is_local = ELF64_ST_BIND(symbols[i].st_info) == STB_LOCAL;
        if (is_hidden && !is_local && symbols[i].st_shndx != SHN_UNDEF)
            symbols[i].st_other &= (unsigned char)~STV_HIDDEN;
    }
}

/* Reads the object in place. Members of an archive begin at even addresses, so fields may be
 * misaligned, which x86 and Arm allow. */
static void show_object(char *object)
{
    const Elf64_Ehdr *header = (const void *)object;
    const Elf64_Shdr *sections = (const void *)(object + header->e_shoff);
    for (size_t i = 0; i < header->e_shnum; i++)
        if (sections[i].sh_type == SHT_SYMTAB)
            show_symbols((void *)(object + sections[i].sh_offset),
                         sections[i].sh_size / sizeof(Elf64_Sym));
}

static void show_archive(char *archive, size_t size)
{
    for (size_t at = SARMAG; at + sizeof(struct ar_hdr) < size;) {
        const struct ar_hdr *header = (const void *)(archive + at);
        char *member = archive + at + sizeof *header;
        size_t n_bytes = strtoul(header->ar_size, NULL, 10);
        if (memcmp(member, ELFMAG, SELFMAG) == 0) show_object(member);
        at += sizeof *header + n_bytes + n_bytes % 2;
    }
}

int main(int argc, char **argv)
{
    struct stat file;
    int fd = argc == 2 ? open(argv[1], O_RDWR) : -1;
    if (fd < 0 || fstat(fd, &file) != 0) {
        fprintf(stderr, "show_hidden: cannot open %s\n", argc == 2 ? argv[1] : "no ARCHIVE");
        return EXIT_FAILURE;
    }
    size_t size = (size_t)file.st_size;
    char *archive = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (archive == MAP_FAILED || memcmp(archive, ARMAG, SARMAG) != 0) {
        fprintf(stderr, "show_hidden: %s is no archive\n", argv[1]);
        return EXIT_FAILURE;
    }
    show_archive(archive, size);
    munmap(archive, size);
    return close(fd) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
