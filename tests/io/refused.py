#!/usr/bin/env python3
"""Writes tests/io/refused: small models that are refused. test_onnx_refused.c has their messages.

Run by hand with onnx 1.23.2:
    python3 tests/io/refused.py [NAME]...
"""
import os
import sys

import onnx
import onnx.parser

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "refused")
models = {}


def refused(name, text, opset=25, imports=""):
    header = f'<ir_version: 10, opset_import: ["" : {opset}{imports}]>\n'
    models[name] = lambda: onnx.parser.parse_model(header + text)


def made(function):
    models[function.__name__] = function
    return function


# ---- opset 24 to 27 ----

HEADS = "float[1,2,3,4] q, float[1,2,5,4] k, float[1,2,5,4] v"
refused("lengths_with_past", f"main ({HEADS}, int64[1] n) => (float[1,2,3,4] y) {{ y = Attention(q, k, v, , k, v, n) }}")
refused("lengths_of_others", f"main ({HEADS}, int64[2] n) => (float[1,2,3,4] y) {{ y = Attention(q, k, v, , , , n) }}")
refused("lengths_too_early", f"main ({HEADS}, int64[1] n) => (float[1,2,3,4] y) {{ y = Attention(q, k, v, , , , n) }}", 23)
refused("window_of_minus_two", f"main ({HEADS}) => (float[1,2,3,4] y) {{ y = Attention<left_window_size = -2>(q, k, v) }}")
refused("a_flag_of_two", "main (float[2,3] x) => (float[2] y) { y = ReduceL2<keepdims = 2>(x) }")
refused("a_flag_of_minus_one", "main (float[1,1,5] x) => (float[1,1,n] y) { y = MaxPool<kernel_shape = [2], strides = [2], ceil_mode = -1>(x) }")
refused("cache_of_other_sizes", "main (float[2,6,2] c, float[2,3,3] u) => (float[2,6,2] y) { y = TensorScatter(c, u) }")
refused("convolution_of_groups", "main (float[1,4,6] x, float[4,2,3] w) => (float[1,4,6] y) { y = CausalConvWithState(x, w) }", 27)
refused("bits_of_other_size", "main (float[2] x) => (int64[2] y) { y = BitCast<to = 7>(x) }", 26)
refused("bits_of_data", "main (float[2] x) => (int32[2] y) { y = BitCast<to = 6>(x) }", 26)
refused("linear_attention", "main (float[1,2,8] x) => (float[1,2,8] y) "
        "{ y, s = LinearAttention<q_num_heads = 2, kv_num_heads = 2>(x, x, x) }", 27)

# ---- functions ----

LOCAL = ', "local" : 1'
CALL = "main (float[2] x) => (float[2] y) { y = local.f(x) }\n"
HEAD = '<domain: "local", opset_import: ["" : 17, "local" : 1]>\n'
refused("function_of_itself", CALL + HEAD + "f (x) => (y) { h = local.g(x) y = Relu(h) }\n"
        + HEAD + "g (x) => (y) { y = local.f(x) }", 17, LOCAL)
refused("function_of_itself_in_a_block", CALL + HEAD + """f (x) => (y)
    { c = Constant<value = bool {1}>() y = If (c) <then_branch = a () => (p) { p = local.f(x) },
      else_branch = b () => (q) { q = Relu(x) }> }""", 17, LOCAL)
refused("function_of_unknown_operators", CALL + HEAD + "f (x) => (y) { h = Frobnicate(x) y = local.missing(h) }", 17, LOCAL)
refused("function_of_few_inputs", CALL.replace("f(x)", "f(x, x)") + HEAD + "f (x) => (y) { y = Relu(x) }", 17, LOCAL)
refused("function_of_outer_names", CALL.replace("y = local", "h = Neg(x) y = local") + HEAD + "f (x) => (y) { y = Relu(h) }", 17, LOCAL)
refused("function_without_a_result", CALL + HEAD + "f (x) => (y) { h = Relu(x) }", 17, LOCAL)
refused("function_of_a_missing_input", CALL.replace("f(x)", "f(other)") + HEAD + "f (x) => (y) { y = Relu(x) }", 17, LOCAL)
refused("function_that_needs_its_input", CALL + HEAD + "f (x, w) => (y) { y = Add(x, w) }", 17, LOCAL)
refused("function_of_opset_99", CALL + HEAD.replace("17", "99") + "f (x) => (y) { y = Relu(x) }", 17, LOCAL)
refused("function_of_a_block", """main (float[2] x, bool c) => (float[2] y)
    { y = local.f <body = b () => (float[2] q) { q = Relu(x) }>(x) }
    """ + HEAD + "f <body> (x) => (y) { y = Relu(x) }", 17, LOCAL)
refused("functions_that_double", CALL.replace("local.f", "local.f20") + "".join(
    HEAD + f"f{i} (x) => (y) {{ h = local.f{i - 1}(x) y = local.f{i - 1}(h) }}\n" for i in range(1, 21))
    + HEAD + "f0 (x) => (y) { y = Relu(x) }", 17, LOCAL)
refused("functions_40_deep", CALL.replace("local.f", "local.f40") + "".join(
    HEAD + f"f{i} (x) => (y) {{ y = local.f{i - 1}(x) }}\n" for i in range(1, 41))
    + HEAD + "f0 (x) => (y) { y = Relu(x) }", 17, LOCAL)


@made
def functions_and_blocks_100_deep():
    helper = onnx.helper
    result = [helper.make_tensor_value_info("y", 1, [2])]
    functions = []
    for i in range(7):
        node = helper.make_node("Relu", ["x"], ["y"]) if i == 6 else \
            helper.make_node(f"f{i + 1}", ["x", "c"], ["y"], domain="local")
        for depth in range(17):
            node.output[0] = f"r{depth}"
            result = [helper.make_tensor_value_info(f"r{depth}", 1, [2])]
            other = helper.make_node("Neg", ["x"], [f"r{depth}"])
            node = helper.make_node("If", ["c"], ["y"], then_branch=helper.make_graph([node], "b", [], result),
                                    else_branch=helper.make_graph([other], "b", [], result))
        functions.append(helper.make_function("local", f"f{i}", ["x", "c"], ["y"], [node], [helper.make_opsetid("", 17)]))
    call = helper.make_node("f0", ["x", "c"], ["y"], domain="local")
    graph = helper.make_graph([call], "main", [helper.make_tensor_value_info("x", 1, [2])],
                              [helper.make_tensor_value_info("y", 1, [2])], [helper.make_tensor("c", 9, [], [1])])
    return helper.make_model(graph, ir_version=10, functions=functions,
                             opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("local", 1)])


@made
def function_with_a_broken_default():
    """Field 11 of a function, attribute_proto, of bytes that are no message."""
    proto = onnx.parser.parse_model('<ir_version: 10, opset_import: ["" : 17, "local" : 1]>' + CALL
                                    + HEAD + "f (x) => (y) { y = Relu(x) }")
    bytes = proto.functions[0].SerializeToString() + b"\x5a\x02\xff\xff"
    del proto.functions[:]
    length = len(bytes)
    assert length < 128
    return proto.SerializeToString() + b"\xca\x01" + length.to_bytes(1, "little") + bytes


# ---- elements of fewer bits ----

refused("input_of_four_bits", "main (int4[2] x) => (float[2] y) { y = Cast<to = 1>(x) }", 21)
refused("cast_to_a_scale", "main (float[2] x) => (float[2] y) { h = Cast<to = 24>(x) y = Cast<to = 1>(h) }", 24)
refused("cast_to_six_bits", "main (float[2] x) => (float[2] y) { h = Cast<to = 27>(x) y = Cast<to = 1>(h) }", 24)
refused("scales_that_do_not_fit", "main (float[2,3] x, float[4] s) => (float[2,3] y) "
        "{ z = Constant<value = float {0}>() f = Cast<to = 17>(z) q = QuantizeLinear(x, s, f) y = DequantizeLinear(q, s, f) }", 21)


def of_weights(data_type, sizes, **fields):
    node = onnx.helper.make_node("Cast", ["w"], ["y"], to=1)
    graph = onnx.helper.make_graph([node], "main", [], [onnx.helper.make_tensor_value_info("y", 1, sizes)],
                                   [onnx.TensorProto(name="w", data_type=data_type, dims=sizes, **fields)])
    return onnx.helper.make_model(graph, ir_version=10, opset_imports=[onnx.helper.make_opsetid("", 21)])


@made
def four_bits_of_few_bytes():
    return of_weights(22, [5], raw_data=b"ab")


@made
def four_bits_of_many_bytes():
    return of_weights(21, [5], raw_data=b"abcd")


@made
def eight_bits_of_a_few_items():
    return of_weights(17, [3], int32_data=[1, 2])


# ---- ai.onnx.ml ----

def ml(name, op, inputs="x", outputs="y", data_type=1, sizes=(2, 3), types=(1,), **attributes):
    def make():
        node = onnx.helper.make_node(op, inputs.split(), outputs.split(), domain="ai.onnx.ml", **attributes)
        graph = onnx.helper.make_graph([node], "main", [onnx.helper.make_tensor_value_info("x", data_type, sizes)],
                                       [onnx.helper.make_tensor_value_info(output, type, None)
                                        for output, type in zip(outputs.split(), types)])
        return onnx.helper.make_model(graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid("ai.onnx.ml", 3)])
    models[name] = make


TREE = {"nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [1, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [0.5, 0.0, 0.0], "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0], "target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0],
        "target_weights": [1.0, 2.0]}


def tree(name, op="TreeEnsembleRegressor", outputs="y", **changes):
    ml(name, op, outputs=outputs, **{key: value for key, value in {**TREE, **changes}.items() if value is not None})


tree("tree_of_few_values", nodes_values=[0.5])
tree("tree_of_no_nodes", **{key: None for key in TREE if key.startswith("nodes")})
tree("tree_of_few_weights", target_weights=[1.0])
tree("tree_of_an_unknown_mode", nodes_modes=["BRANCH_MEMBER", "LEAF", "LEAF"])
tree("tree_of_a_cycle", nodes_modes=["BRANCH_LEQ", "BRANCH_LT", "LEAF"], nodes_truenodeids=[1, 0, 0],
     nodes_falsenodeids=[2, 2, 0], target_nodeids=[2, 2])
tree("tree_of_a_diamond", nodes_treeids=[0] * 4, nodes_nodeids=[0, 1, 2, 3], nodes_featureids=[0] * 4, nodes_values=[0.0] * 4,
     nodes_modes=["BRANCH_LEQ", "BRANCH_LT", "BRANCH_LT", "LEAF"], nodes_truenodeids=[1, 2, 3, 0],
     nodes_falsenodeids=[2, 3, 3, 0], target_nodeids=[3, 3])
tree("tree_that_leads_out", nodes_truenodeids=[9, 0, 0])
tree("tree_of_the_same_node", nodes_nodeids=[0, 1, 1])
tree("tree_of_a_far_feature", nodes_featureids=[3, 0, 0])
tree("tree_of_a_negative_feature", nodes_featureids=[-1, 0, 0])
tree("tree_of_a_far_target", target_ids=[0, 1])
tree("tree_of_weights_of_a_branch", target_nodeids=[0, 2])
tree("tree_of_many_targets", n_targets=2**40)
tree("tree_of_much_memory", n_targets=2**31 - 1)
tree("tree_of_other_bases", base_values=[1.0, 2.0])
tree("tree_of_probits", post_transform="PROBIT", n_targets=1)
tree("tree_of_floats_for_ids", nodes_nodeids=[0.0, 1.0, 2.0])
tree("tree_of_missing_minima", n_targets=2, aggregate_function="MIN")
CLASSES = {key.replace("target", "class"): value for key, value in TREE.items()}
ml("tree_of_one_class", "TreeEnsembleClassifier", outputs="y z", types=(7, 1), **CLASSES, classlabels_int64s=[1])
ml("tree_of_two_classes_at_times", "TreeEnsembleClassifier", outputs="y z", types=(7, 1),
   **{**CLASSES, "class_ids": [0, 1]}, classlabels_int64s=[1, 2])
ml("tree_of_texts_alone", "TreeEnsembleClassifier", outputs="y", types=(8,), **CLASSES, classlabels_strings=["a", "b"])
ml("scaler_of_other_features", "Scaler", scale=[1.0, 2.0])
ml("imputer_of_nothing", "Imputer")
ml("columns_of_a_number", "ArrayFeatureExtractor", "x x")
ml("features_that_lie", "FeatureVectorizer", inputdimensions=[2])
ml("features_of_other_inputs", "FeatureVectorizer", inputdimensions=[2, 3])
ml("categories_of_texts", "OneHotEncoder", cats_strings=["a"])
ml("categories_of_nothing", "OneHotEncoder", data_type=7)
ml("labels_of_texts", "LabelEncoder", keys_floats=[1.0], values_strings=["a"])
ml("labels_of_few_values", "LabelEncoder", keys_floats=[1.0, 2.0], values_int64s=[1])
ml("line_of_few_coefficients", "LinearRegressor", coefficients=[1.0, 2.0])
ml("line_of_many_features", "LinearRegressor", sizes=(2, 3, 4), coefficients=[1.0, 2.0])
ml("classes_of_few_intercepts", "LinearClassifier", outputs="y z", types=(7, 1), coefficients=[1.0] * 9, intercepts=[1.0] * 2,
   classlabels_ints=[1, 2, 3])
ml("classes_of_support_vectors", "SVMClassifier", outputs="y z", types=(7, 1), coefficients=[1.0])


if __name__ == "__main__":
    os.makedirs(FOLDER, exist_ok=True)
    for name in sys.argv[1:] or models:
        proto = models[name]()
        with open(os.path.join(FOLDER, name + ".onnx"), "wb") as file:
            file.write(proto if isinstance(proto, bytes) else proto.SerializeToString())
