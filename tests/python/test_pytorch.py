"""PyTorch modules with tessera.compile and torch.compile."""

import gc
import subprocess
import sys
import threading
import warnings
import weakref

import pytest
import torch
from torch import nn

import tessera
import tessera.backend
from networks import NETWORKS, Function, make
from tessera.backend import Fallback


def close(a, b):
    return (a - b).abs().max() <= 1e-4 * b.abs().max()


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    with torch.no_grad():
        yield


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_give_pytorch_s_outputs(name):
    network, x = make(name)
    wanted = network(x)
    assert close(tessera.compile(network, x)(x), wanted)
    compiled = torch.compile(network, backend="tessera")
    with warnings.catch_warnings():
        warnings.simplefilter("error", Fallback)
        assert close(compiled(x), wanted)
        other = torch.randn(x.shape[0] + 1, *x.shape[1:])
        assert close(compiled(other), network(other))


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("mask", [None, "padding", "causal"])
def test_pytorch_s_fused_encoder_layer_is_taken(norm_first, activation, mask):
    torch.manual_seed(1)
    layer = nn.TransformerEncoderLayer(
        24, 3, 40, batch_first=True, activation=activation, norm_first=norm_first
    ).eval()
    for parameter in layer.parameters():
        parameter.normal_(0, 0.3)
    x = torch.randn(2, 7, 24)
    masks = {}
    if mask == "padding":
        masks["src_key_padding_mask"] = torch.arange(7) >= torch.tensor([[7], [4]])
    if mask == "causal":
        masks["src_mask"] = torch.ones(7, 7, dtype=torch.bool).triu(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", Fallback)
        made = torch.compile(layer, backend="tessera")(x, **masks)
    assert close(made, layer(x, **masks))


@pytest.mark.parametrize("need_weights", [False, True])
def test_pytorch_s_fused_attention_is_taken(need_weights):
    torch.manual_seed(1)
    attention = nn.MultiheadAttention(24, 3, batch_first=True).eval()
    x = torch.randn(2, 7, 24)
    with warnings.catch_warnings():
        warnings.simplefilter("error", Fallback)
        made = torch.compile(attention, backend="tessera")(x, x, x, need_weights=need_weights)
    wanted = attention(x, x, x, need_weights=need_weights)
    assert close(made[0], wanted[0])
    assert close(made[1], wanted[1]) if need_weights else made[1] is None


def test_an_input_of_rank_0_is_taken():
    model = tessera.compile(Function(lambda x, a: x * a).eval(), torch.ones(2), torch.tensor(3.0))
    assert torch.equal(model(torch.ones(2), torch.tensor(5.0)), torch.full((2,), 5.0))


def test_a_compiled_module_has_open_sizes_by_name():
    network, x = make("residual")
    batch = torch.export.Dim("batch", min=1, max=64)
    model = tessera.compile(network, torch.cat([x, x]), dynamic_shapes=({0: batch},))
    assert model.inputs[0].shape == ("batch", 3, 32, 32)
    other = torch.randn(7, 3, 32, 32)
    assert close(model(other), network(other))


def test_a_module_in_training_mode_is_refused():
    network, x = make("residual")
    with pytest.raises(tessera.Unsupported, match="training mode"):
        tessera.compile(network.train(), x)


def falls_back(function, *args, match):
    with pytest.warns(Fallback, match=match):
        return torch.compile(function, backend="tessera")(*args)


def test_gradients_are_left_to_pytorch():
    network, x = make("residual")
    with torch.enable_grad():
        falls_back(network, x, match="needs gradients").sum().backward()
    assert network.head.weight.grad is not None


def compiles(function, *args, **named):
    """Runs a compiled function that must not run anything in PyTorch."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", Fallback)
        return torch.compile(function, backend="tessera")(*args, **named)


def test_autocast_is_taken():
    network, x = make("mobile")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        made, wanted = compiles(network, x), network(x)
    assert made.dtype == torch.bfloat16 and (made - wanted).abs().max() < 0.03 * wanted.abs().max()


def test_writes_to_inputs_are_taken():
    def add_into(state, x):
        state.add_(x)
        return state * 2

    state = torch.zeros(4)
    y = compiles(add_into, state, torch.ones(4))
    assert torch.equal(state, torch.ones(4)) and torch.equal(y, torch.full((4,), 2.0))


def test_random_numbers_are_left_to_pytorch():
    torch.manual_seed(3)
    wanted = torch.rand(4) + 1
    torch.manual_seed(3)
    x = torch.ones(4)
    assert torch.equal(falls_back(lambda x: torch.rand(4) + x, x, match="aten.rand"), wanted)


def test_the_rest_of_a_graph_is_taken(exports):
    network, x = make("residual")

    def function(x):
        y = network(x)
        return torch.linalg.matrix_exp(y[:, :2, None] @ y[:, None, :2]) * 2

    assert close(falls_back(function, x, match="^operators .*linalg_matrix_exp"), function(x))
    assert len(exports) == 2 and "conv2d" in exports[0] and "mul" in exports[1]


def test_parameters_that_are_written_are_frozen_again(exports):
    layer = nn.Linear(4, 3).eval()
    layer.register_buffer("scale", torch.ones(3))
    compiled = torch.compile(Function(lambda x: layer(x) * layer.scale), backend="tessera")
    x = torch.randn(2, 4)
    for turn in range(6):
        assert close(compiled(x), layer(x) * layer.scale)
        layer.scale.mul_(2)
    layer.weight.zero_()
    assert close(compiled(x), layer(x) * layer.scale)
    assert len(exports) == 5  # the scale is an input from the third write on


def test_an_operator_that_is_not_known_is_named():
    def inverse(x):
        return torch.linalg.inv(x)

    x = torch.eye(3) * 2
    assert close(falls_back(inverse, x, match="linalg_inv_ex"), torch.eye(3) / 2)


def test_outputs_that_are_none_or_numbers_stay_so():
    class Several(nn.Module):
        def forward(self, x):
            return x + 1, None, {"twice": x * 2, "number": 3}

    x = torch.randn(4)
    first, second, third = torch.compile(Several(), backend="tessera")(x)
    assert second is None and third["number"] == 3
    assert close(first, x + 1) and close(third["twice"], x * 2)


def test_modules_of_one_class_have_their_own_parameters():
    """PyTorch runs the first module's graph for all, with their parameters as inputs."""
    x = torch.randn(3, 6)
    modules = [nn.Sequential(nn.Linear(6, 4), nn.ReLU()).eval() for _ in range(3)]
    compiled = [torch.compile(module, backend="tessera") for module in modules]
    for _ in range(2):
        for module, of_tessera in zip(modules, compiled):
            assert close(of_tessera(x), module(x))


def test_modules_that_died_leave_nothing(exports):
    x, living = torch.randn(3, 6), []
    with warnings.catch_warnings():
        warnings.simplefilter("error", Fallback)
        for _ in range(12):
            module = nn.Linear(6, 4).eval()
            assert close(torch.compile(module, backend="tessera")(x), module(x))
            living.append(weakref.ref(module.weight))
    assert len(exports) == 12  # none ran in PyTorch
    del module
    gc.collect()
    assert not [ref for ref in living if ref() is not None]


def test_modules_of_one_class_that_are_too_many_take_turns(exports, monkeypatch):
    monkeypatch.setattr(tessera.backend, "_MAX_MODULES", 2)
    monkeypatch.setattr(tessera.backend, "_MAX_LOADS", 1)
    x = torch.randn(3, 6)
    modules = [nn.Linear(6, 4).eval() for _ in range(4)]
    compiled = [torch.compile(module, backend="tessera") for module in modules]
    with pytest.warns(Fallback, match="more than 2 modules") as warned:
        for i in (0, 1, 0, 2, 0, 2, 3, 1, 0, 2):  # 2 evicts 1; then PyTorch runs 3 and 1
            assert close(compiled[i](x), modules[i](x))
    assert len(exports) == 3 and len(warned) == 1


def test_sizes_are_kept_apart():
    function = torch.compile(Function(lambda x: x.flatten(1).sum(1)), backend="tessera")
    for sizes in ((2, 3, 4), (3, 3, 4), (2, 5, 7), (3, 3, 4), (9, 1, 2)):
        x = torch.randn(sizes)
        assert close(function(x), x.flatten(1).sum(1))


def test_channels_last_and_views_may_come_in():
    network, x = make("residual")
    compiled = torch.compile(network, backend="tessera")
    wanted = network(x)
    assert close(compiled(x), wanted)
    assert close(compiled(x.contiguous(memory_format=torch.channels_last)), wanted)
    assert close(compiled(torch.cat([x, x], 1)[:, :3]), wanted)


def test_threads_share_a_compiled_module():
    network, x = make("residual")
    compiled = torch.compile(network, backend="tessera")
    wanted = compiled(x)
    made = []

    def run():
        with torch.no_grad():
            made.extend(compiled(x) for _ in range(10))

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 30 and all(close(y, wanted) for y in made)


# ---- open sizes and parameters ----


@pytest.fixture
def exports(monkeypatch):
    """Counts the graphs that the backend loads."""
    made = []
    load = tessera.backend._native.load_graph

    def counted(text, constants, settings):
        made.append(text)
        return load(text, constants, settings)

    monkeypatch.setattr(tessera.backend._native, "load_graph", counted)
    return made


def test_a_graph_with_open_sizes_is_exported_once(exports):
    network, x = make("residual")
    compiled = torch.compile(network, backend="tessera")
    for n, height, width in ((2, 32, 32), (3, 40, 24), (7, 24, 48), (5, 17, 33), (2, 64, 64)):
        x = torch.randn(n, 3, height, width)
        assert close(compiled(x), network(x))
    assert len(exports) == 2  # for the first sizes, and when PyTorch first gets others


def test_a_size_that_is_marked_is_open(exports):
    function = torch.compile(Function(lambda x, y: (x @ y).flatten(1) * x.shape[1]), backend="tessera")
    for n in (6, 9, 4, 30):
        x, y = torch.randn(2, n, 5), torch.randn(5, 3)
        torch._dynamo.mark_dynamic(x, 1)
        assert close(function(x, y), (x @ y).flatten(1) * n)
    assert len(exports) == 1


def test_numbers_that_are_no_sizes_have_models_of_their_own(exports):
    function = torch.compile(lambda x, n: x * n + 1, backend="tessera", dynamic=True)
    x = torch.randn(4, 6)
    for n in (3, 5, 3, 7):
        assert close(function(x, n), x * n + 1)
    assert len(exports) == 3


def test_a_batch_norm_s_numbers_are_taken():
    """With dynamic=True PyTorch passes epsilon and momentum as tensors."""
    network = nn.Sequential(nn.Conv2d(3, 7, 3, 2, 1), nn.BatchNorm2d(7), nn.ReLU()).eval()
    compiled = torch.compile(network, backend="tessera", dynamic=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", Fallback)
        for sizes in ((2, 3, 16, 24), (3, 3, 8, 40), (5, 3, 17, 23)):
            x = torch.randn(sizes)
            assert close(compiled(x), network(x))
        network[1].eps = 2.0
        assert close(compiled(x), network(x))


@pytest.mark.parametrize("sizes", [(4, 6), (4, 1)])
def test_a_number_that_is_computed_with_is_an_input(exports, sizes):
    function = torch.compile(lambda x, a: (x * a - a) / 2, backend="tessera", dynamic=True)
    for a in (0.5, 7.25, -3.0):
        x = torch.randn(sizes)
        assert close(function(x, a), (x * a - a) / 2)
    assert len(exports) == 1


@pytest.mark.parametrize(
    "function, x",
    [
        (lambda x, s: x * s, torch.arange(6)),
        (lambda x, s: x * s, torch.arange(6) > 2),
        (lambda x, s: x.argmax() + s, torch.arange(6.0)),
        (lambda x, s: x.mean() * s, torch.arange(6.0)),
        (lambda x, s: (x > 0) * s + x, torch.arange(6.0)),
        (lambda x, s: x * (s * 2), torch.arange(6.0)),
    ],
    ids=["integers", "booleans", "index", "rank_0", "mask", "number"],
)
def test_a_number_that_is_open_leaves_dtypes_alone(function, x):
    """If the other operand is not a float, a tensor of rank 0 changes the dtype more than a number."""
    compiled = torch.compile(function, backend="tessera", dynamic=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", Fallback)
        for number in (0.5, 2.25):
            made, wanted = compiled(x, number), function(x, number)
            assert made.dtype == wanted.dtype and close(made, wanted)


def test_exports_that_fail_leave_dynamo_alone(monkeypatch):
    """PyTorch's strict export would reset the frame of torch.compile, and crash."""
    resets = []
    monkeypatch.setattr(torch._dynamo, "reset", lambda: resets.append(1))
    x = torch.eye(3) * 2
    assert close(falls_back(torch.linalg.inv, x, match="linalg_inv"), torch.eye(3) / 2)
    with pytest.raises(tessera.Unsupported, match="linalg_inv"):
        tessera.compile(Function(torch.linalg.inv).eval(), x)
    assert not resets


def test_numbers_without_end_are_left_to_pytorch(exports, monkeypatch):
    monkeypatch.setattr(tessera.backend, "_MAX_LOADS", 2)
    x = torch.randn(4, 6)
    function = torch.compile(lambda x, n: x.clamp(max=n), backend="tessera", dynamic=True)
    with pytest.warns(Fallback, match="2 sets of sizes and numbers"):
        for n in (3, 5, 3, 7, 9):
            assert torch.equal(function(x * 5, n), (x * 5).clamp(max=n))
    assert len(exports) == 2


def test_what_a_model_refuses_at_a_call_pytorch_says():
    table = torch.randn(5, 3)
    look_up = torch.compile(lambda i: table[i] * 1.0, backend="tessera")
    assert close(look_up(torch.tensor([1, 4])), table[[1, 4]])
    with pytest.raises(IndexError), pytest.warns(Fallback):
        look_up(torch.tensor([1, 7]))


def test_parameters_are_copied_once():
    n = 25000
    table = nn.Embedding(n, 1000).eval()  # 100 MB, which a look-up reads without a copy
    x = torch.tensor([0, 3, n - 1])
    before = tessera.counters()["tensor_bytes"]
    model = tessera.compile(table, x)
    wanted = table(x)
    assert torch.equal(model(x), wanted)
    assert tessera.counters()["tensor_bytes"] - before < 1.1 * n * 1000 * 4
    table.weight[3] = 7.0
    assert torch.equal(model(x), wanted)


_PEAK = """
import resource, sys, torch, tessera
torch.manual_seed(0)
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
small = torch.nn.Linear(50, 50).eval()
with torch.no_grad():
    tessera.compile(small, torch.randn(1, 50))  # what importing and exporting take by themselves
    network, x = torch.nn.Linear(5000, 5000).eval(), torch.randn(1, 5000)
    before = peak()
    model = tessera.compile(network, x)
    y = model(x)
    assert (y - network(x)).abs().max() < 1e-3
print(peak() - before)
"""


def test_a_module_of_100_mb_takes_its_packed_weights_more():
    out = subprocess.run([sys.executable, "-c", _PEAK], check=True, capture_output=True, text=True)
    assert float(out.stdout) < 150


def test_parameters_outlive_their_module():
    network, x = make("residual")
    wanted = network(x)
    model = tessera.compile(network, x)
    del network
    gc.collect()
    assert close(model(x), wanted)


def test_a_tensor_with_the_negative_bit_keeps_its_sign():
    x = torch.tensor([1 + 2j, 3 - 4j]).conj().imag
    assert x.is_neg()
    assert torch.equal(compiles(lambda x: x * 2, x), torch.tensor([-4.0, 8.0]))
    assert torch.equal(tessera.compile(Function(lambda x: x * 2).eval(), x.clone())(x), x * 2)


def test_nothing_is_printed_at_exit():
    code = "import torch; print(torch.compile(lambda x: x * 2, backend='tessera')(torch.ones(2)))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert out.stdout == "tensor([2., 2.])\n" and "leaked" not in out.stderr


def test_a_graph_that_does_not_load_is_tried_once(monkeypatch):
    tried = []

    def load(*_):
        tried.append(1)
        raise tessera.Unsupported("not today")

    monkeypatch.setattr(tessera.backend._native, "load_graph", load)
    function, x = torch.compile(lambda x: x * 2, backend="tessera"), torch.ones(3)
    with pytest.warns(Fallback, match="a graph runs in PyTorch: not today") as warned:
        for _ in range(3):
            assert torch.equal(function(x), x * 2)
    assert len(tried) == 1 and len(warned) == 1


def test_graphs_of_many_inputs_or_results_are_left_to_pytorch():
    xs = [torch.full((3,), float(i)) for i in range(40)]
    for function, args in ((lambda *xs: sum(xs), xs), (lambda x: [x * i for i in range(40)], xs[1:2])):
        made = falls_back(function, *args, match="40 (inputs|results), at most 32")
        assert all(map(torch.equal, made, function(*args)))
