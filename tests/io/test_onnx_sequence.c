/* Invalid sequences and optionals fail at import if the reason is known there, otherwise at run
 * time. test_onnx_stored.c tests valid ones. */
#include "tests/support/onnx/onnx_model.h"
#include "tests/support/support.h"

static void refuse(context_t *ctx, status_t status, const char *words)
{
    module_t *model = NULL;
    CHECK_FAILS(ctx, load_model_with(ctx, NULL, &model), status, words);
}

/* Begins a model with `list`, a sequence of x [2,3] and x, and `place`, a constant. */
static void begin_list(int64_t place)
{
    begin_model(17, DIMS(2, 3));
    maker_initializer(&maker, "place", INT64, 0, NULL, &place, sizeof place);
    maker_node(&maker, "SequenceConstruct", "make", "x x", "list");
}

static void known_places_are_checked_at_import(void **state)
{
    context_t *ctx = fixture_context(state);
    begin_list(2);
    maker_node(&maker, "SequenceAt", "at", "list place", "y");
    refuse(ctx, STATUS_INVALID_ARGUMENT,
           "onnx: node \"at\" (SequenceAt): position 2 of a sequence of 2, -2 to 1 is needed");
    begin_list(-3);
    maker_node(&maker, "SequenceErase", "erase", "list place", "rest");
    refuse(ctx, STATUS_INVALID_ARGUMENT, "position -3 of a sequence of 2, -2 to 1 is needed");
    begin_list(3);
    maker_node(&maker, "SequenceInsert", "insert", "list x place", "more");
    refuse(ctx, STATUS_INVALID_ARGUMENT, "position 3 of a sequence of 2, -2 to 2 is needed");
}

/* Runs a model whose position is the input `at`, which has the value `place`. */
static void refuse_place(context_t *ctx, int64_t place, const char *words)
{
    module_t *model = NULL;
    tensor_t *in[2] = {NULL}, *out = NULL;
    int n_out = 1;
    CHECK_OK(ctx, load_model_with(ctx, NULL, &model));
    CHECK_OK(ctx, tensor_zeros(ctx, DTYPE_F32, SHAPE(2, 3), &in[0]));
    CHECK_OK(ctx, tensor_from(ctx, DTYPE_S64, 0, NULL, &place, &in[1]));
    CHECK_FAILS(
        ctx,
        module_call_tensors(ctx, model, "forward", 2, (const tensor_t *const *)in, &n_out, &out),
        STATUS_INVALID_ARGUMENT, words);
    tensor_release(in[0]);
    tensor_release(in[1]);
    module_release(model);
}

static void begin_open_place(void)
{
    begin_list(0);
    maker_input(&maker, "at", INT64, 0, NULL);
}

static void places_on_data_are_checked_where_the_model_runs(void **state)
{
    context_t *ctx = fixture_context(state);
    begin_open_place();
    maker_node(&maker, "SequenceAt", "take", "list at", "y");
    refuse_place(ctx, 2, "index: index 2, out of range for 2 items");
    begin_open_place();
    maker_node(&maker, "SequenceErase", "erase", "list at", "rest");
    maker_node(&maker, "SequenceAt", "take", "rest place", "y");
    refuse_place(ctx, -3, "erase: index -3, out of range for 2 items");
    begin_open_place();
    maker_node(&maker, "SequenceInsert", "insert", "list x at", "more");
    maker_node(&maker, "SequenceAt", "take", "more place", "y");
    refuse_place(ctx, 3, "insert: index 3, out of range for 2 items");
}

static void tensors_and_sequences_are_not_confused(void **state)
{
    context_t *ctx = fixture_context(state);
    begin_list(0);
    maker_node(&maker, "Relu", "relu", "list", "y");
    refuse(ctx, STATUS_INVALID_ARGUMENT,
           "onnx: node \"relu\" (Relu): input \"list\" is a sequence, a tensor is needed");
    begin_list(0);
    maker_node(&maker, "SequenceAt", "at", "x place", "y");
    refuse(ctx, STATUS_INVALID_ARGUMENT, "input 0 is a tensor, a sequence is needed");
    begin_list(0);
    maker_node(&maker, "SequenceConstruct", "nest", "list", "y");
    refuse(ctx, STATUS_INVALID_ARGUMENT, "input 0 is no tensor, one is needed");
    begin_list(0);
    maker_node(&maker, "SequenceInsert", "insert", "list place", "y");
    refuse(ctx, STATUS_INVALID_ARGUMENT, "s64 into a sequence of f32");
}

static void pieces_have_to_make_up_the_size(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t pieces[2] = {1, 3}, none = 0;
    begin_list(0);
    maker_initializer(&maker, "pieces", INT64, DIMS(2), pieces, sizeof pieces);
    maker_int(maker_node(&maker, "SplitToSequence", "split", "x pieces", "parts"), "axis", 1);
    refuse(ctx, STATUS_INVALID_ARGUMENT, "a piece of 3, the size is 3");
    begin_list(0);
    maker_initializer(&maker, "pieces", INT64, DIMS(1), pieces, sizeof *pieces);
    maker_int(maker_node(&maker, "SplitToSequence", "split", "x pieces", "parts"), "axis", 1);
    refuse(ctx, STATUS_INVALID_ARGUMENT, "pieces of 1 in sum, the size is 3");
    begin_list(0);
    maker_initializer(&maker, "piece", INT64, 0, NULL, &none, sizeof none);
    maker_node(&maker, "SplitToSequence", "split", "x piece", "parts");
    refuse(ctx, STATUS_INVALID_ARGUMENT, "a size of 2 in pieces of 0");
}

static void a_piece_may_be_larger_than_the_size(void **state)
{
    context_t *ctx = fixture_context(state);
    const int64_t most = INT64_MAX;
    begin_list(0);
    maker_initializer(&maker, "piece", INT64, 0, NULL, &most, sizeof most);
    maker_node(&maker, "SplitToSequence", "split", "x piece", "parts");
    maker_int(maker_node(&maker, "ConcatFromSequence", "join", "parts", "y"), "axis", 0);
    module_release(load_model(ctx));
}

static void a_sequence_without_tensors_has_nothing_to_give(void **state)
{
    context_t *ctx = fixture_context(state);
    begin_list(0);
    maker_node(&maker, "SequenceEmpty", "none", "", "empty");
    maker_int(maker_node(&maker, "ConcatFromSequence", "join", "empty", "y"), "axis", 0);
    refuse(ctx, STATUS_INVALID_ARGUMENT, "the sequence is empty, one tensor is needed");
    begin_list(0);
    maker_node(&maker, "ConcatFromSequence", "join", "list", "y");
    refuse(ctx, STATUS_INVALID_ARGUMENT, "axis is missing");
    begin_list(0);
    maker_node(&maker, "Optional", "none", "", "y");
    refuse(ctx, STATUS_INVALID_ARGUMENT, "neither an element nor a type");
}

static void tensors_of_other_ranks_have_to_be_told_apart_at_import(void **state)
{
    context_t *ctx = fixture_context(state);
    begin_open_place();
    maker_int(maker_node(&maker, "ReduceSum", "sum", "x", "s"), "keepdims", 0);
    maker_node(&maker, "SequenceConstruct", "both", "x s", "pair");
    maker_node(&maker, "SequenceAt", "take", "pair at", "y");
    refuse(ctx, STATUS_UNSUPPORTED, "tensors of the sequence have different ranks at import");
    begin_list(0);
    maker_node(&maker, "SequenceConstruct", "make", "place place", "numbers");
    maker_int(maker_node(&maker, "ConcatFromSequence", "join", "numbers", "y"), "axis", 0);
    refuse(ctx, STATUS_INVALID_ARGUMENT, "tensors of rank 0");
}

static void a_sequence_map_goes_over_sequences(void **state)
{
    context_t *ctx = fixture_context(state);
    static maker_t body;
    maker_begin(&body, 17);
    maker_input(&body, "item", FLOAT, DIMS(2, 3));
    maker_node(&body, "Relu", "", "item", "result");
    maker_output(&body, "result");
    begin_list(0);
    maker_attr_graph(maker_node(&maker, "SequenceMap", "map", "x", "y"), "body", &body);
    refuse(ctx, STATUS_INVALID_ARGUMENT,
           "onnx: node \"map\" (SequenceMap): input 0 is not a sequence");
    /* The second input is omitted, for a sequence of known and of unknown length. */
    maker_input(&body, "left_out", FLOAT, DIMS(2, 3));
    begin_list(0);
    maker_attr_graph(maker_node(&maker, "SequenceMap", "map", "list -", "many"), "body", &body);
    maker_node(&maker, "SequenceAt", "take", "many place", "y");
    refuse(ctx, STATUS_INVALID_ARGUMENT, "input 1 is missing");
    begin_open_place();
    maker_node(&maker, "SequenceErase", "erase", "list at", "rest");
    maker_attr_graph(maker_node(&maker, "SequenceMap", "map", "rest -", "many"), "body", &body);
    maker_node(&maker, "SequenceAt", "take", "many place", "y");
    refuse(ctx, STATUS_INVALID_ARGUMENT, "input 1 is missing");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(known_places_are_checked_at_import),
        TEST(places_on_data_are_checked_where_the_model_runs),
        TEST(tensors_and_sequences_are_not_confused),
        TEST(pieces_have_to_make_up_the_size),
        TEST(a_piece_may_be_larger_than_the_size),
        TEST(a_sequence_without_tensors_has_nothing_to_give),
        TEST(tensors_of_other_ranks_have_to_be_told_apart_at_import),
        TEST(a_sequence_map_goes_over_sequences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
