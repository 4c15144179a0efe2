/* Sizes that a file leaves open: their names, what they are tried at, and why they are fixed.
 *
 * Each size is tried by itself at small, near and large numbers, then all of them together. A trial
 * at which a node fails is over: the graph has to fail there as well. */
#include "io/onnx_item_impl.h"
#include "io/onnx_trial_impl.h"

#ifdef TESSERA_HAVE_ONNX

#include <stdio.h>
#include <string.h>

/* ---- names ---- */

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.';
}

static bool is_letter(char c)
{
    return is_name_char(c) && c != '_' && c != '.' && !(c >= '0' && c <= '9');
}

static bool is_taken(const onnx_t *onnx, const char *name)
{
    for (int i = 0; i < onnx->n_open; i++)
        if (strcmp(onnx->open[i].name, name) == 0) return true;
    return false;
}

/* The name in the file as the grammar of graphs has it: "2*N" is called "N2_N". Sizes without a
 * name are N, then D1, D2, ... by their dimension. */
static void choose_name(const onnx_t *onnx, const char *param, int dim, char *out_name)
{
    char stem[ONNX_NAME_MAX - 16];
    if (param == NULL && dim == 0)
        snprintf(stem, sizeof stem, "N");
    else if (param == NULL)
        snprintf(stem, sizeof stem, "D%d", dim);
    else
        snprintf(stem, sizeof stem, "%s%.40s", is_letter(*param) ? "" : "N", param);
    for (char *c = stem; *c != '\0'; c++)
        if (!is_name_char(*c)) *c = '_';
    snprintf(out_name, ONNX_NAME_MAX, "%s", stem);
    for (int number = 1; is_taken(onnx, out_name); number++)
        snprintf(out_name, ONNX_NAME_MAX, "%s_%d", stem, number);
}

int onnx_open_find(onnx_t *onnx, const char *param, int dim, int64_t size)
{
    for (int i = 0; i < onnx->n_open; i++) {
        const onnx_open_t *open = &onnx->open[i];
        bool is_it = param != NULL ? open->param != NULL && strcmp(open->param, param) == 0
                                   : open->param == NULL && open->dim == dim &&
                                         (size == 0 || open->size == 0 || open->size == size);
        if (is_it) return i;
    }
    if (onnx->n_open == ONNX_MAX_OPEN) return ONNX_NOT_OPEN;
    onnx_open_t *open = &onnx->open[onnx->n_open];
    *open = (onnx_open_t){.param = param, .dim = dim};
    choose_name(onnx, param, dim, open->name);
    return onnx->n_open++;
}

/* ---- reasons ---- */

/* The first reason counts. */
static void note_reason(onnx_open_t *open, const Onnx__NodeProto *proto, const char *why)
{
    if (open->reason[0] != '\0') return;
    if (proto == NULL) {
        snprintf(open->reason, sizeof open->reason, "%.300s", why);
        return;
    }
    const char *name = proto->name != NULL ? proto->name : "";
    if (*name == '\0' && proto->n_output > 0) name = proto->output[0];
    snprintf(open->reason, sizeof open->reason, "node %.80s (%.40s): %.300s", name,
             proto->op_type != NULL ? proto->op_type : "", why);
}

/* ---- trials ---- */

static void add_trial(onnx_t *onnx, const int64_t *sizes)
{
    for (int k = 0; k < onnx->n_trials; k++)
        if (memcmp(onnx->sizes[k], sizes, (size_t)onnx->n_open * sizeof *sizes) == 0) return;
    if (onnx->n_trials == ONNX_MAX_TRIALS) return;
    memcpy(onnx->sizes[onnx->n_trials++], sizes, (size_t)onnx->n_open * sizeof *sizes);
}

/* Trials of sizes that depend on elements come last. */
static void add_data_trials(onnx_t *onnx)
{
    if (onnx->n_trials > ONNX_MAX_TRIALS - ONNX_DATA_TRIALS)
        onnx->n_trials = ONNX_MAX_TRIALS - ONNX_DATA_TRIALS;
    onnx->first_data_trial = onnx->n_trials;
    for (int i = 0; i < ONNX_DATA_TRIALS; i++)
        memcpy(onnx->sizes[onnx->n_trials++], onnx->sizes[0],
               (size_t)onnx->n_open * sizeof *onnx->sizes[0]);
}

/* The data-th of many, of which no two are alike in all trials. */
static int64_t tried_at(const onnx_t *onnx, const int64_t *tried, int data)
{
    enum { APART = 50 };
    if (onnx->trial < onnx->first_data_trial) return tried[0];
    const int at = onnx->trial - onnx->first_data_trial;
    return tried[1 + (at + 3 * data) % ONNX_DATA_TRIALS] +
           (int64_t)(data / ONNX_DATA_TRIALS) * APART;
}

int64_t onnx_data_size(const onnx_t *onnx, int data)
{
    static const int64_t tried[ONNX_DATA_TRIALS + 1] = {6, 1, 2, 3, 7, 40, 12, 1009, 5};
    return tried_at(onnx, tried, data);
}

int64_t onnx_data_number(const onnx_t *onnx, int data)
{
    static const int64_t tried[ONNX_DATA_TRIALS + 1] = {6, 1, 2, 0, 7, 40, -1, 12, 3};
    return tried_at(onnx, tried, data);
}

static void try_sizes(onnx_t *onnx)
{
    int64_t base[ONNX_MAX_OPEN], sizes[ONNX_MAX_OPEN];
    for (int i = 0; i < onnx->n_open; i++) base[i] = onnx->open[i].size;
    onnx->n_trials = 0;
    add_trial(onnx, base);
    onnx->n_trials = 1;
    for (int i = 0; i < onnx->n_open && onnx->closed_by != NULL; i++) {
        onnx->open[i].is_fixed = true;
        note_reason(&onnx->open[i], NULL, onnx->closed_by);
    }
    if (onnx->closed_by != NULL) return;
    for (int i = 0; i < onnx->n_open; i++) {
        int64_t size = base[i];
        /* Seven in a row tell quotients of up to 8 apart; those about 6720, the product of 64, 3, 5
         * and 7, tell which of its divisors' quotients round down and which up. */
        const int64_t tried[] = {1,        2,        3,        5,        size + 1, size + 2,
                                 size + 3, size + 4, size + 5, size + 6, size + 7, 2 * size,
                                 1009,     6719,     6720,     6721};
        for (size_t t = 0; t < sizeof tried / sizeof *tried; t++) {
            memcpy(sizes, base, sizeof sizes);
            sizes[i] = tried[t];
            add_trial(onnx, sizes);
        }
    }
    for (int i = 0; i < onnx->asked->n; i++) {
        memcpy(sizes, base, sizeof sizes);
        sizes[onnx->asked->open[i]] = onnx->asked->sizes[i];
        add_trial(onnx, sizes);
    }
    for (int p = 0; p < 6 && onnx->n_open > 1; p++) {
        for (int i = 0; i < onnx->n_open; i++)
            sizes[i] = base[i] + (base[i] < 16 ? 1 : 32) * (1 + (3 * p + 2 * i + p * i) % 7);
        add_trial(onnx, sizes);
    }
}

void onnx_open_begin(onnx_t *onnx)
{
    try_sizes(onnx);
    add_data_trials(onnx);
}

/* What stands for inputs that are a few integers. */
static status_t set_stands(onnx_t *onnx)
{
    for (int i = 0; i < onnx->n_inputs; i++) {
        const item_t item = onnx->inputs[i].item;
        const int first = onnx->n_data;
        for (onnx->trial = 0; onnx->trial < onnx->n_trials; onnx->trial++) {
            const tensor_info_t info = *onnx_info(onnx, item);
            int data = first;
            if (!onnx_is_special(onnx, item) && onnx_needs_stand(&info))
                TRY(onnx_make_stand(onnx, item, &info, &data));
        }
    }
    onnx->trial = 0;
    return STATUS_OK;
}

/* Infos of the inputs in all trials. */
status_t onnx_set_inputs(onnx_t *onnx)
{
    for (onnx->trial = 1; onnx->trial < onnx->n_trials; onnx->trial++) {
        const int64_t *sizes = onnx->sizes[onnx->trial];
        for (int i = 0; i < onnx->n_inputs; i++) {
            const onnx_input_t *input = &onnx->inputs[i];
            tensor_info_t info = onnx->items[input->item].info;
            for (int d = 0; d < info.rank; d++)
                if (input->open[d] != ONNX_NOT_OPEN) info.sizes[d] = sizes[input->open[d]];
            int64_t numel = 0;
            if (!onnx_is_special(onnx, input->item) &&
                (!shape_numel(info.rank, info.sizes, &numel) || numel > INT64_MAX / 16))
                onnx->is_over[onnx->trial] = true;
            if (!onnx_is_special(onnx, input->item))
                info = info_dense(info.dtype, info.rank, info.sizes);
            TRY(onnx_set_info(onnx, input->item, &info));
        }
    }
    onnx->trial = 0;
    return set_stands(onnx);
}

/* ---- sizes that are asked for ---- */

static int n_moved(const onnx_t *onnx, int trial)
{
    int n = 0;
    for (int i = 0; i < onnx->n_open; i++) n += onnx->sizes[trial][i] != onnx->sizes[0][i];
    return n;
}

int onnx_sizes_over(const onnx_t *onnx, int open, int64_t *out_sizes)
{
    int n = 0;
    for (int k = 1; k < onnx->first_data_trial; k++)
        if (onnx->is_over[k] && n_moved(onnx, k) == 1 &&
            onnx->sizes[k][open] != onnx->sizes[0][open])
            out_sizes[n++] = onnx->sizes[k][open];
    return n;
}

/* Sizes that this open one alone is tried at, now or by the next import. */
static int list_tried(const onnx_t *onnx, int open, int64_t *tried)
{
    int n = 0;
    for (int k = 0; k < onnx->first_data_trial; k++)
        if (n_moved(onnx, k) <= 1) tried[n++] = onnx->sizes[k][open];
    for (int i = 0; i < onnx->asked->n; i++)
        if (onnx->asked->open[i] == open) tried[n++] = onnx->asked->sizes[i];
    return n;
}

void onnx_ask_size(onnx_t *onnx, int open, int64_t size)
{
    onnx_asked_t *asked = onnx->asked;
    int64_t tried[ONNX_MAX_TRIALS + ONNX_MAX_ASKED];
    const int n_tried = list_tried(onnx, open, tried);
    for (int i = 0; i < n_tried; i++)
        if (tried[i] == size) return;
    if (asked->n == ONNX_MAX_ASKED) return;
    asked->open[asked->n] = open;
    asked->sizes[asked->n++] = size;
}

void onnx_ask(onnx_t *onnx, int open, int n_samples, const int64_t *sizes, const int64_t *values)
{
    onnx_asked_t *asked = onnx->asked;
    int64_t tried[ONNX_MAX_TRIALS + ONNX_MAX_ASKED];
    const int n_tried = list_tried(onnx, open, tried);
    const int n = size_split(n_samples, sizes, values, n_tried, tried, ONNX_MAX_ASKED - asked->n,
                             &asked->sizes[asked->n]);
    for (int i = 0; i < n; i++) asked->open[asked->n++] = open;
}

/* ---- sizes that are fixed ---- */

void onnx_end_trial(onnx_t *onnx, int trial, const Onnx__NodeProto *proto, const char *why)
{
    if (onnx->is_over[trial]) return;
    onnx->is_over[trial] = true;
    for (int i = 0; i < onnx->n_open && n_moved(onnx, trial) == 1; i++)
        if (onnx->sizes[trial][i] != onnx->sizes[0][i]) note_reason(&onnx->open[i], proto, why);
}

void onnx_fix(onnx_t *onnx, int trial, const Onnx__NodeProto *proto, const char *why)
{
    if (trial >= onnx->first_data_trial) onnx->data_reason = why;
    for (int i = 0; i < onnx->n_open; i++) {
        onnx_open_t *open = &onnx->open[i];
        if (onnx->sizes[trial][i] == onnx->sizes[0][i] || open->is_fixed) continue;
        open->is_fixed = true;
        if (!onnx->is_over[trial]) open->reason[0] = '\0';
        note_reason(open, proto, why);
        for (int k = 1; k < onnx->n_trials; k++)
            onnx->is_over[k] |= onnx->sizes[k][i] != onnx->sizes[0][i];
    }
}

void onnx_fix_all(onnx_t *onnx, const Onnx__NodeProto *proto, const char *why)
{
    for (int k = 1; k < onnx->first_data_trial; k++)
        if (!onnx->is_over[k]) onnx_fix(onnx, k, proto, why);
}

void onnx_fix_lost(onnx_t *onnx)
{
    for (int i = 0; i < onnx->n_open; i++) {
        bool is_lost = true;
        int last = 0;
        for (int k = 1; k < onnx->first_data_trial; k++) {
            if (onnx->sizes[k][i] == onnx->sizes[0][i] || n_moved(onnx, k) != 1) continue;
            last = k;
            is_lost = is_lost && onnx->is_over[k];
        }
        if (!is_lost || onnx->open[i].is_fixed) continue;
        onnx_fix(onnx, last, NULL, "it has no other size");
    }
}

void onnx_reason(const onnx_t *onnx, size_t capacity, char *out_text)
{
    size_t length = 0;
    *out_text = '\0';
    for (int i = 0; i < onnx->n_open && length < capacity; i++) {
        const onnx_open_t *open = &onnx->open[i];
        if (!open->is_fixed) continue;
        int n = snprintf(out_text + length, capacity - length, "%s%s is %lld only, %s",
                         length > 0 ? "; " : "", open->name, (long long)open->size, open->reason);
        length += n > 0 ? (size_t)n : 0;
    }
}

#endif
