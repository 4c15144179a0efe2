#!/usr/bin/env python3
"""Writes to tests/io/stored models of ai.onnx.ml, with what ONNX Runtime gives for them: single
operators, and pipelines that scikit-learn made.

Run by hand with onnx 1.23.2, ONNX Runtime 1.32.0, scikit-learn 1.9.1, skl2onnx 1.20.0:
    python3 tests/io/stored_ml.py [NAME]...

A map of labels to probabilities is stored as the probabilities; labels that are texts are left out.
"""
import os
import sys
import warnings

import numpy
import onnx
import onnxruntime

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stored")
models = {}
helper = onnx.helper
TYPES = {numpy.dtype("float32"): 1, numpy.dtype("int64"): 7, numpy.dtype("float64"): 11, numpy.dtype("int32"): 6}


def made(function):
    """The function gives a ModelProto and runs: {input: array} each."""
    models[function.__name__] = function
    return function


def floats(*sizes, seed=0):
    return numpy.random.default_rng([seed, *sizes]).standard_normal(sizes).astype(numpy.float32)


def single(runs, nodes, version=3):
    """Nodes (op, inputs, outputs, attributes) of ai.onnx.ml; inputs are those of the first run, of an
    open first size, outputs those that no node reads."""
    made_nodes, read, given = [], set(), []
    for op, inputs, outputs, attributes in nodes:
        made_nodes.append(helper.make_node(op, inputs.split(), outputs.split(), domain="ai.onnx.ml", **attributes))
        read |= set(inputs.split())
        given += outputs.split()
    inputs = [helper.make_tensor_value_info(name, TYPES[array.dtype], [f"N_{name}", *array.shape[1:]])
              for name, array in runs[0].items()]
    outputs = [onnx.ValueInfoProto(name=name) for name in given if name not in read]
    graph = helper.make_graph(made_nodes, "main", inputs, outputs)
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17),
                                                                  helper.make_opsetid("ai.onnx.ml", version)])
    return model, runs


# ---- features ----

@made
def ml_features():
    runs = [{"x": floats(4, 3)}, {"x": floats(2, 3)}]
    runs[0]["x"][1] = 0
    holes = {"values": numpy.array([[1, numpy.nan, 3], [numpy.nan, 5, -1]], numpy.float32)}
    counts = {"n": numpy.array([[1, -1], [2, 3], [-1, 0]], numpy.int64)}
    for run in runs:
        run.update(holes)
        run.update(counts)
    return single(runs, [
        ("Scaler", "x", "a", {"offset": [0.5, -1.0, 2.0], "scale": [2.0, 0.25, -1.0]}),
        ("Scaler", "n", "b", {"offset": [0.5], "scale": [3.0]}),
        ("Normalizer", "x", "c", {"norm": "MAX"}), ("Normalizer", "x", "d", {"norm": "L1"}),
        ("Normalizer", "x", "e", {"norm": "L2"}), ("Binarizer", "x", "f", {"threshold": 0.25}),
        ("Imputer", "values", "g", {"imputed_value_floats": [7.0, 8.0, 9.0], "replaced_value_float": numpy.nan}),
        ("Imputer", "x", "h", {"imputed_value_floats": [7.0], "replaced_value_float": 0.0}),
        ("Imputer", "n", "i", {"imputed_value_int64s": [4, 6], "replaced_value_int64": -1}),
        ("FeatureVectorizer", "x c", "j", {"inputdimensions": [3, 3]})])


@made
def ml_columns():
    runs = [{"x": floats(4, 5), "k": numpy.array([4, 0, 0], numpy.int64)},
            {"x": floats(1, 5), "k": numpy.array([2, 3, 1], numpy.int64)}]
    return single(runs, [("ArrayFeatureExtractor", "x k", "y", {})])


@made
def ml_categories():
    runs = [{"n": numpy.array([[3, 7], [5, 9], [3, 3]], numpy.int64),
             "x": numpy.array([[3, 5.5], [9, 2]], numpy.float32)},
            {"n": numpy.array([[9, 5]], numpy.int64), "x": numpy.array([[numpy.nan, -1]], numpy.float32)}]
    return single(runs, [
        ("OneHotEncoder", "n", "a", {"cats_int64s": [3, 5, 7], "zeros": 1}),
        ("OneHotEncoder", "n", "b", {"cats_int64s": [3, 5, 7, 9], "zeros": 0}),
        ("OneHotEncoder", "x", "c", {"cats_int64s": [2, 3, 5], "zeros": 1}),
        ("LabelEncoder", "n", "d", {"keys_int64s": [5, 3, 7], "values_floats": [0.5, 1.5, 2.5], "default_float": -7.0}),
        ("LabelEncoder", "n", "e", {"keys_int64s": [5, 3, 3], "values_int64s": [50, 30, 31]}),
        ("LabelEncoder", "x", "f", {"keys_floats": [5.5, numpy.nan, 9.0], "values_int64s": [1, 2, 3], "default_int64": 4})],
        4)  # from version 4 on ONNX Runtime finds a NaN among the keys


# ---- linear models ----

@made
def ml_linear():
    coefficients = floats(3, 4).flatten().tolist()
    nodes = [("LinearRegressor", "x", "a", {"coefficients": coefficients, "intercepts": [0.1, -0.2, 0.3], "targets": 3}),
             ("LinearRegressor", "x", "b", {"coefficients": coefficients[:4], "targets": 1})]
    for i, transform in enumerate(("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")):
        nodes.append(("LinearClassifier", "x", f"l{i} s{i}", {
            "coefficients": coefficients, "intercepts": [0.1, -0.2, 0.3], "classlabels_ints": [7, 3, 11],
            "post_transform": transform, "multi_class": 1}))
    for i, transform in enumerate(("NONE", "LOGISTIC")):
        nodes.append(("LinearClassifier", "x", f"m{i} t{i}", {
            "coefficients": coefficients[4:8], "intercepts": [0.1], "classlabels_ints": [-4, 4],
            "post_transform": transform}))
    return single([{"x": floats(5, 4)}, {"x": floats(1, 4)}], nodes)


# ---- trees ----

MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


def forest(n_trees, n_features, modes, seed, tracks=False):
    """Trees of random shapes; ids are not in order."""
    random = numpy.random.default_rng(seed)
    lists = {name: [] for name in ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids",
                                   "missing_value_tracks_true")}
    leaves = []
    for tree in range(n_trees):
        n = int(random.integers(0, 6))
        ids = (random.permutation(2 * n + 1)).tolist()
        children = {}
        open_nodes, made_nodes, at = [ids[0]], [ids[0]], 1
        for _ in range(n):
            node = open_nodes.pop(int(random.integers(len(open_nodes))))
            children[node] = (ids[at], ids[at + 1])
            open_nodes += ids[at:at + 2]
            made_nodes += ids[at:at + 2]
            at += 2
        for node in made_nodes:
            is_leaf = node not in children
            low, high = children.get(node, (0, 0))
            row = (tree, node, int(random.integers(n_features)), "LEAF" if is_leaf else str(random.choice(modes)),
                   round(float(random.normal()), 1), low, high, int(random.integers(2)))
            for name, value in zip(lists, row):
                lists[name].append(value)
            if is_leaf:
                leaves.append((tree, node))
    if not tracks:
        del lists["missing_value_tracks_true"]
    return {"nodes_" + name: values for name, values in lists.items()}, leaves


def trees(seed, prefix, n, classes=None, n_trees=5, modes=MODES[:1], tracks=False, scale=1.0, shift=0.0, **more):
    """Every leaf has a weight for each target, or for the classes listed."""
    attributes, leaves = forest(n_trees, 4, modes, seed, tracks)
    random = numpy.random.default_rng(seed + 1000)
    pairs = [(leaf, target) for leaf in leaves for target in (classes or range(n))]
    attributes[prefix + "_treeids"] = [leaf[0] for leaf, _ in pairs]
    attributes[prefix + "_nodeids"] = [leaf[1] for leaf, _ in pairs]
    attributes[prefix + "_ids"] = [target for _, target in pairs]
    attributes[prefix + "_weights"] = [float(random.random() * scale + shift) for _ in pairs]
    attributes.update(more)
    return attributes


def rows(with_nan=False):
    runs = [{"x": floats(9, 4, seed=3).round(1)}, {"x": floats(1, 4, seed=4).round(1)}]
    if with_nan:
        runs[0]["x"][::2, 1] = numpy.nan
        runs[0]["x"][::3, 2] = numpy.nan
    return runs


@made
def ml_trees_regress():
    nodes = [("TreeEnsembleRegressor", "x", f"y{i}", trees(
        i, "target", 2, n_targets=2, aggregate_function=name, base_values=[0.5, -1.0]))
        for i, name in enumerate(("SUM", "AVERAGE", "MIN", "MAX"))]
    nodes.append(("TreeEnsembleRegressor", "x", "z", trees(9, "target", 1, n_targets=1, post_transform="LOGISTIC")))
    nodes.append(("TreeEnsembleRegressor", "x", "s", trees(8, "target", 3, n_targets=3, post_transform="SOFTMAX")))
    return single(rows(), nodes)


@made
def ml_trees_of_all_modes():
    nodes = [("TreeEnsembleRegressor", "x", f"y{i}", trees(20 + i, "target", 1, n_targets=1, n_trees=9, modes=modes,
                                                          tracks=i % 2 == 1))
             for i, modes in enumerate(([mode] for mode in MODES for _ in range(2)))]
    return single(rows(True), nodes)


@made
def ml_trees_of_doubles():
    runs = [{"x": run["x"].astype(numpy.float64)} for run in rows()]
    return single(runs, [("TreeEnsembleRegressor", "x", "y", trees(40, "target", 2, n_targets=2))])


@made
def ml_trees_classify():
    nodes = []
    for i, transform in enumerate(("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")):
        nodes.append(("TreeEnsembleClassifier", "x", f"l{i} s{i}", trees(
            50 + i, "class", 3, classlabels_int64s=[5, 2, 9], post_transform=transform, scale=2.0, shift=-1.0,
            **({"base_values": [0.1, 0.2, -0.3]} if i % 2 else {}))))
    nodes.append(("TreeEnsembleClassifier", "x", "l s", trees(
        60, "class", 4, classes=[1, 3], classlabels_int64s=[5, 2, 9, 4], scale=-1.0)))
    return single(rows(), nodes)


@made
def ml_trees_classify_two():
    nodes, i = [], 0
    for classes in ([0], [1], [0, 1]):
        for shift in (0.0, -0.5):
            for bases in ([], [0.1], [0.1, 0.25]):
                for transform in ("NONE", "LOGISTIC"):
                    nodes.append(("TreeEnsembleClassifier", "x", f"l{i} s{i}", trees(
                        70 + i, "class", 2, classes=classes, classlabels_int64s=[0, 1], post_transform=transform,
                        n_trees=3, scale=0.4 if shift == 0.0 else 1.0, shift=shift,
                        **({"base_values": bases} if bases else {}))))
                    i += 1
    return single(rows(), nodes[:16])


@made
def ml_trees_classify_two_more():
    nodes, i = [], 0
    for classes in ([0, 1],):
        for shift in (0.0, -0.5):
            for bases in ([], [0.1], [0.1, 0.25]):
                for transform in ("NONE", "SOFTMAX"):
                    nodes.append(("TreeEnsembleClassifier", "x", f"l{i} s{i}", trees(
                        170 + i, "class", 2, classes=classes, classlabels_int64s=[0, 1], post_transform=transform,
                        n_trees=3, scale=0.4 if shift == 0.0 else 1.0, shift=shift,
                        **({"base_values": bases} if bases else {}))))
                    i += 1
    return single(rows(), nodes)


# ---- pipelines of scikit-learn ----

def pipeline(estimator, texts=False, classes=3, options=None, regress=False):
    from sklearn.datasets import load_iris
    from skl2onnx import to_onnx
    x, y = load_iris(return_X_y=True)
    x, y = x[y < classes].astype(numpy.float32), y[y < classes]
    estimator.fit(x, x[:, 3] * 2 + x[:, 0] if regress else numpy.array(["one", "two", "three"])[y] if texts else y)
    model = to_onnx(estimator, x[:1], options=options and {id(estimator): options}, target_opset={"": 17, "ai.onnx.ml": 3})
    return model, [{"X": x[::17]}, {"X": x[77:78]}]


@made
def ml_pipeline_of_a_forest():
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    return pipeline(make_pipeline(StandardScaler(), RandomForestClassifier(7, max_depth=4, random_state=0)))


@made
def ml_pipeline_of_two_classes():
    from sklearn.ensemble import GradientBoostingClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler
    return pipeline(make_pipeline(MinMaxScaler(), GradientBoostingClassifier(n_estimators=9, random_state=0)), classes=2)


@made
def ml_pipeline_of_texts():
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import Normalizer
    return pipeline(make_pipeline(Normalizer(), LogisticRegression()), texts=True)


@made
def ml_pipeline_of_bayes_and_texts():
    from sklearn.naive_bayes import GaussianNB
    return pipeline(GaussianNB(), texts=True)


@made
def ml_pipeline_that_regresses():
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    return pipeline(make_pipeline(SimpleImputer(), RandomForestRegressor(5, max_depth=4, random_state=0)), regress=True)


@made
def ml_pipeline_without_maps():
    from sklearn.linear_model import LogisticRegression
    return pipeline(LogisticRegression(), classes=2, options={"zipmap": False})


# ---- writing ----

def as_array(result):
    """Returns the probabilities in a list of maps as an array; None for texts."""
    if isinstance(result, list):
        return numpy.array([list(row.values()) for row in result], numpy.float32)
    return None if result.dtype == object or result.dtype.kind == "U" else result


def write(name):
    proto, runs = models[name]()
    for i in range(len(proto.metadata_props)):
        proto.metadata_props.pop()
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    values = onnx.GraphProto(name=name)
    for run, feeds in enumerate(runs):
        results = zip((output.name for output in session.get_outputs()), session.run(None, feeds))
        for key, result in [*feeds.items(), *results]:
            array = result if key in feeds else as_array(result)
            if array is not None:
                values.initializer.append(onnx.numpy_helper.from_array(array, f"{run}/{key}"))
    for output, made_output in zip(proto.graph.output, session.get_outputs()):
        if not output.HasField("type"):
            output.type.tensor_type.elem_type = {"tensor(float)": 1, "tensor(int64)": 7}[made_output.type]
            output.type.tensor_type.shape.SetInParent()
            for _ in made_output.shape:
                output.type.tensor_type.shape.dim.add()
    onnx.checker.check_model(proto)
    onnx.save(proto, os.path.join(FOLDER, name + ".onnx"))
    with open(os.path.join(FOLDER, name + ".values"), "wb") as file:
        file.write(values.SerializeToString())


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    for name in sys.argv[1:] or models:
        write(name)
