#!/usr/bin/env python3
"""Writes onnx_values.txt: models in lines, each with what ONNX Runtime gives for drawn weights and
inputs, as an independent source.

Run by hand with onnx 1.23.2 and ONNX Runtime 1.31.1:
    python3 tests/io/onnx_values.py > tests/io/onnx_values.txt

    model NAME OPSET
    input NAME SIZES             drawn, see `drawn`
    weight NAME SIZES [SCALE]    an initializer, drawn: shift 0 and SCALE, by default that of its
                                 fan-in; "weight NAME SIZES positive" is between 0.5 and 1.5
    ints NAME VALUES             an initializer of s64
    floats NAME VALUES           one of f32, whole numbers
    scalar NAME VALUE            one of f32, of rank 0
    node TYPE INPUTS OUTPUTS [ATTRIBUTE=VALUE]...    names with commas between, - for none; values
                                 are 1, 0.5, [1,2] or a word; TYPE may have com.microsoft. in front
    output NAME SIZES ELEMENTS...   ONNX Runtime's, added here; every k-th, at most N_SHOWN, where
                                 k is the least odd number that makes so many
"""
import math
import os
import sys

import numpy
import onnx
import onnxruntime

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from draw import draw

N_SHOWN = 64

MODELS = """
model image_classifier 13
input x 2,3,33,29
weight stem 16,3,5,3
weight stem_bias 16 0.1
weight pointwise 24,16,1,1
weight grouped 32,6,3,3
weight head 10,32
weight head_bias 10 0.1
node Conv x,stem,stem_bias a strides=[2,1] pads=[2,0,1,2] dilations=[1,2]
node Relu a b
node MaxPool b c kernel_shape=[3,3] strides=[2,2] ceil_mode=1
node Conv c,pointwise d
node LeakyRelu d e alpha=0.2
node Conv e,grouped f group=4 pads=[1,1,1,1] strides=[1,2]
node Clip f,low,high g
node GlobalAveragePool g h
node Flatten h i
node Gemm i,head,head_bias y transB=1 alpha=0.5 beta=2.0
scalar low -0.25
scalar high 1.5
output y

model residual 15
input x 1,16,14,15
weight expand 48,16,1,1
weight depthwise 48,1,5,5
weight shrink 16,48,1,1
weight scale1 48 positive
weight shift1 48 0.3
weight mean1 48 0.3
weight variance1 48 positive
weight scale2 48 positive
weight shift2 48 0.3
weight mean2 48 0.3
weight variance2 48 positive
node Conv x,expand a
node BatchNormalization a,scale1,shift1,mean1,variance1 b epsilon=0.001
node HardSwish b c
node Conv c,depthwise d group=48 auto_pad=SAME_UPPER
node BatchNormalization d,scale2,shift2,mean2,variance2 e
node Relu e f
node Conv f,shrink g
node Add g,x h
node AveragePool h y kernel_shape=[3,3] strides=[2,2] pads=[1,1,1,1] count_include_pad=0
output y

model excitation 13
input x 2,12,9,10
weight squeeze 4,12,1,1
weight excite 12,4,1,1
weight excite_bias 12 0.5
weight mix 12,3,3,3
ints shape1 2,4,3,9,10
ints shape2 2,12,9,10
ints pads 0,0,1,2,0,0,1,2
node ReduceMean x a axes=[2,3] keepdims=1
node Conv a,squeeze b
node Relu b c
node Conv c,excite,excite_bias d
node HardSigmoid d e alpha=0.2 beta=0.5
node Mul x,e f
node Reshape f,shape1 g
node Transpose g h perm=[0,2,1,3,4]
node Reshape h,shape2 i
node Pad i,pads j mode=reflect
node Conv j,mix k group=4
node Sigmoid k l
node Mul k,l y
output y

model upsampler 13
input x 1,6,7,5
weight down 16,6,3,3
weight up 16,8,4,3
weight up_bias 8 0.2
weight last 3,14,3,3
floats scales 1,1,2,3
node Conv x,down a pads=[1,1,1,1] strides=[2,2]
node Elu a b alpha=0.7
node ConvTranspose b,up,up_bias c strides=[2,2] pads=[1,0,1,1] output_padding=[1,1] dilations=[1,1]
node Slice c,starts,ends,axes d
node Concat x,d e axis=1
node Resize e,-,scales f mode=linear coordinate_transformation_mode=half_pixel
node Conv f,last y pads=[0,1,2,1]
ints starts 0,0
ints ends 7,5
ints axes 2,3
output y

model scaled 13
input x 1,8,6,7
weight mix 8,8,3,3
weight slope 8,1,1 0.4
ints sizes 1,8,11,5
node Conv x,mix a pads=[1,1,1,1]
node PRelu a,slope b
node LRN b c size=5 alpha=0.3 beta=0.6 bias=1.5
node Resize c,-,-,sizes d mode=linear coordinate_transformation_mode=align_corners
node DepthToSpace d e blocksize=2 mode=CRD
node MaxPool e y kernel_shape=[3,2] strides=[2,3] dilations=[2,1] pads=[1,0,2,1]
output y

model attention 17
input x 2,9,24
weight query 24,24
weight key 24,24
weight value 24,24
weight query_bias 24 0.3
weight join 24,24
weight norm_scale 24 positive
weight norm_shift 24 0.2
ints heads 2,9,4,6
ints joined 2,9,24
scalar root 0.408248
node LayerNormalization x,norm_scale,norm_shift n axis=-1 epsilon=0.0001
node MatMul n,query q0
node Add q0,query_bias q1
node Reshape q1,heads q2
node Transpose q2 q perm=[0,2,1,3]
node MatMul n,key k0
node Reshape k0,heads k1
node Transpose k1 k perm=[0,2,3,1]
node MatMul n,value v0
node Reshape v0,heads v1
node Transpose v1 v perm=[0,2,1,3]
node MatMul q,k s0
node Mul s0,root s1
node Softmax s1 s axis=-1
node MatMul s,v o0
node Transpose o0 o1 perm=[0,2,1,3]
node Reshape o1,joined o2
node MatMul o2,join o3
node Add x,o3 r
output r

model feedforward 17
input x 3,5,24
weight norm_scale 24 positive
weight wide 24,48
weight wide_bias 48 0.2
weight narrow 48,24
weight narrow_bias 24 0.2
scalar half 0.5
scalar one 1
scalar root2 1.4142135
node LayerNormalization x,norm_scale n axis=2
node MatMul n,wide a
node Add a,wide_bias b
node Div b,root2 c
node Erf c d
node Add d,one e
node Mul b,e f
node Mul f,half g
node MatMul g,narrow h
node Add h,narrow_bias i
node Add i,x j
node LogSoftmax j y axis=1
output y

model sequence 13
input x 2,10,31
weight first 16,10,5
weight second 16,1,3
weight scale 16 positive
weight shift 16 0.5
node Conv x,first a dilations=[3] pads=[4,5] strides=[2]
node InstanceNormalization a,scale,shift b epsilon=0.01
node Tanh b c
node Conv c,second d group=16 auto_pad=SAME_LOWER
node Softplus d e
node AveragePool e f kernel_shape=[4] strides=[3] pads=[2,1] count_include_pad=1
node ReduceMean f y axes=[1] keepdims=0
output y

model volume 13
input x 1,4,6,7,5
weight mix 8,4,3,2,3
weight mix_bias 8 0.3
node Conv x,mix,mix_bias a pads=[1,0,1,1,1,1] strides=[1,2,1]
node Selu a b
node MaxPool b c kernel_shape=[2,2,2] strides=[2,1,2] pads=[0,1,0,0,0,1]
node AveragePool c y kernel_shape=[2,1,1]
output y

model choices 16
input x 4,7
input z 4,1
weight gate 7 0.5
scalar two 2
scalar tiny 0.1
node Greater x,gate c
node Abs x p
node Add p,tiny q
node Pow q,two r
node Log q s
node Where c,r,s t
node Softsign t u
node Div u,z v
node Max v,x,gate w
node Exp w o
node Reciprocal o w2
node Sqrt w2 y
output y

model norms 18
input x 2,12,5,7
weight scale 12 positive
weight shift 12 0.3
weight group_scale 4 positive
weight group_shift 4 0.3
weight row_scale 5,7 positive
weight rms_scale 5,7 positive
node InstanceNormalization x,scale,shift a epsilon=0.001
node GroupNormalization a,group_scale,group_shift b num_groups=4
node LayerNormalization b,row_scale c,mean,deviation axis=2 epsilon=0.01
node SimplifiedLayerNormalization c,rms_scale d axis=2 epsilon=0.001
node LpNormalization d e axis=1 p=1
node MeanVarianceNormalization e f axes=[0,2,3]
node Mul f,deviation g
node Add g,mean y
output y

model microsoft 17
input x 2,4,24
ints ids 3,1,0,2,2,3,3,1
ints mask 1,1,1,0,1,1,0,0
ints rows 2,4
weight words 4,24 0.8
weight positions 6,24 0.8
weight kinds 2,24 0.8
weight scale 24 positive
weight shift 24 0.3
weight qkv 24,72
weight qkv_bias 72 0.3
weight bias 24 0.3
weight heads_bias 72 0.3
weight mix 24,24
node Reshape ids,rows i0
node Cast i0 i1 to=6
node Reshape mask,rows m0
node Cast m0 m1 to=6
node com.microsoft.EmbedLayerNormalization i1,-,words,positions,kinds,scale,shift e,unused epsilon=0.001
node Add e,x a
node com.microsoft.Attention a,qkv,qkv_bias,m1 b num_heads=4
node com.microsoft.SkipLayerNormalization b,a,scale,shift,bias c,-,-,sum epsilon=0.001
node com.microsoft.FusedMatMul c,mix d transB=1 alpha=0.5
node com.microsoft.BiasGelu d,bias f
node com.microsoft.FastGelu f,bias g
node com.microsoft.QuickGelu g h alpha=1.5
node com.microsoft.MultiHeadAttention h,c,sum,heads_bias,m1 j num_heads=3
node com.microsoft.Gelu j k
node com.microsoft.SkipSimplifiedLayerNormalization k,sum,scale y epsilon=0.01
output y

model group_norm 21
input x 2,18,5,6
weight mix 20,18,3,3
weight scale 20 positive
weight shift 20 0.3
node Conv x,mix a pads=[1,1,1,1]
node GroupNormalization a,scale,shift b num_groups=5 epsilon=0.0001
node Relu b c
node LpNormalization c y axis=2
output y

model small_pools 17
input x 2,3,2,5
ints row -1
node MaxPool x a kernel_shape=[3,2] strides=[2,3]
node AveragePool x b kernel_shape=[5,6] strides=[3,2] pads=[1,0,1,0]
node AveragePool x c kernel_shape=[5,7] strides=[2,3] pads=[1,0,1,0] count_include_pad=1
node MaxPool x d,i kernel_shape=[4,3] strides=[3,1]
node Cast i e to=1
node Reshape a,row a2
node Reshape b,row b2
node Reshape c,row c2
node Reshape d,row d2
node Reshape e,row e2
node Concat a2,b2,c2,d2,e2 y axis=0
output y

model pool_indices 12
input x 2,3,7,6
input v 1,2,4,3,5
node MaxPool x a,i kernel_shape=[3,2] strides=[2,2]
node MaxPool x b,j kernel_shape=[3,3] strides=[2,1] pads=[1,0,1,1] storage_order=1 ceil_mode=1
node MaxPool v c,k kernel_shape=[2,2,2] dilations=[1,1,2] storage_order=1
node MaxUnpool a,i u kernel_shape=[3,2] strides=[2,2]
node Cast i i1 to=1
node Cast j j1 to=1
node Cast k k1 to=1
ints row -1
node Reshape a,row a2
node Reshape i1,row i2
node Reshape b,row b2
node Reshape j1,row j2
node Reshape c,row c2
node Reshape k1,row k2
node Reshape u,row u2
node Concat a2,i2,b2,j2,c2,k2,u2 y axis=0
output y

model boxes 16
input x 2,5,11,9
floats corners 0,1,5,7,-3,2,6,9,1,-1,8,12,3,4,3,4,2,1,7,3
ints rows 5,4
ints images 0,1,1,0,1
scalar shift 0.28
node Reshape corners,rows b0
node Add b0,shift boxes
node RoiAlign x,boxes,images a output_height=3 output_width=2
node RoiAlign x,boxes,images b output_height=3 output_width=2 sampling_ratio=2 mode=max spatial_scale=0.7
node RoiAlign x,boxes,images c output_height=3 output_width=2 coordinate_transformation_mode=output_half_pixel
node RoiAlign x,boxes,images d output_height=3 output_width=2 mode=max coordinate_transformation_mode=output_half_pixel spatial_scale=0.5
node Concat a,b,c,d y axis=1
output y

model crops 13
input x 2,3,7,6
floats crop4 0,0,20,-40,100,100,90,150
scalar hundred 100
ints sizes 2,3,5,4
node Div crop4,hundred crop
node Resize x,crop,-,sizes a mode=linear coordinate_transformation_mode=tf_crop_and_resize extrapolation_value=1.5
node Resize x,crop,-,sizes b mode=nearest coordinate_transformation_mode=tf_crop_and_resize
node Resize x,crop,-,sizes c mode=cubic coordinate_transformation_mode=tf_crop_and_resize
node Resize x,crop,-,sizes d mode=nearest coordinate_transformation_mode=tf_half_pixel_for_nn nearest_mode=floor
node Concat a,b,c,d y axis=1
output y

model attention_states 23
input q 2,6,5,8
input k 2,3,4,8
input v 2,3,4,6
weight past_k 2,3,2,8 1.0
weight past_v 2,3,2,6 1.0
weight bias 5,6 1.0
ints seen 1,1,0,1,1,0,1,0,1,1,1,1,0,0,0,0,0,0,1,1,1,1,1,1,0,1,0,1,1,1
ints seen_sizes 5,6
node Reshape seen,seen_sizes seen2
node Cast seen2 mask to=9
node Attention q,k,v a is_causal=1
node Attention q,k,v,-,past_k,past_v b,bk,bv is_causal=1 scale=0.4
node Attention q,k,v,bias,past_k,past_v c,ck,cv is_causal=1
node Attention q,k,v,mask,past_k,past_v d,dk,dv
node Attention q,k,v,bias,past_k,past_v e,ek,ev softcap=2.0 is_causal=1
node Attention q,k,v,bias,past_k,past_v h,hk,hv,products
node Attention q,k,v,mask,past_k,past_v f,fk,fv,capped softcap=1.5 qk_matmul_output_mode=1
node Attention q,k,v,mask,past_k,past_v g,gk,gv,weights softcap=1.5 qk_matmul_output_mode=3
node Concat a,b,c,d,e,f,g,h outs axis=1
node Concat products,capped,weights scores axis=1
ints row -1
node Reshape outs,row r0
node Reshape scores,row r1
node Reshape bk,row r2
node Reshape bv,row r3
node Concat r0,r1,r2,r3 y axis=0
output y

model rotary 23
input x 2,3,5,8
input rows 2,5,24
weight cos 9,4 1.0
weight sin 9,4 1.0
weight some_cos 2,5,2 1.0
weight some_sin 2,5,2 1.0
ints positions 0,3,1,8,2,5,4,4,7,6
ints positions_sizes 2,5
node Reshape positions,positions_sizes p
node RotaryEmbedding x,cos,sin,p a
node RotaryEmbedding x,cos,sin,p b interleaved=1
node RotaryEmbedding x,some_cos,some_sin c rotary_embedding_dim=4
node RotaryEmbedding rows,cos,sin,p d num_heads=3
node RotaryEmbedding rows,some_cos,some_sin e num_heads=3 rotary_embedding_dim=4 interleaved=1
node Concat a,b,c f axis=1
ints row -1
node Reshape f,row r0
node Reshape d,row r1
node Reshape e,row r2
node Concat r0,r1,r2 y axis=0
output y
"""


def drawn(name, sizes, scale=None, shift=0.0):
    if scale is None:  # fan-in of a convolution, or of a matrix on the right
        scale = math.sqrt(3.0 / (sizes[0] if len(sizes) == 2 else math.prod(sizes[1:])))
    values = shift + scale * draw(name, math.prod(sizes))
    return values.astype(numpy.float32).reshape(sizes)


def attribute(text):
    if text[0] == "[":
        return [int(value) for value in text[1:-1].split(",")]
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text


def names(text):
    return ["" if name == "-" else name for name in text.split(",")]


class Model:
    def __init__(self, title, opset):
        self.title, self.opset = title, int(opset)
        self.inputs, self.data, self.weights, self.nodes = [], {}, [], []

    def add(self, kind, name, *rest):
        if kind == "node":
            domain, _, name = name.rpartition(".")
            self.nodes.append(onnx.helper.make_node(name, names(rest[0]), names(rest[1]), domain=domain, **{
                key: attribute(value) for key, value in (word.split("=") for word in rest[2:])}))
            return
        numbers = rest[0].split(",")
        if kind == "ints":
            self.weights.append(onnx.numpy_helper.from_array(
                numpy.array([int(number) for number in numbers], numpy.int64), name))
        elif kind == "floats":
            self.weights.append(onnx.numpy_helper.from_array(
                numpy.array([float(number) for number in numbers], numpy.float32), name))
        elif kind == "scalar":
            self.weights.append(onnx.numpy_helper.from_array(numpy.float32(rest[0]), name))
        elif kind == "input":
            sizes = [int(number) for number in numbers]
            self.inputs.append(onnx.helper.make_tensor_value_info(name, 1, sizes))
            self.data[name] = drawn(name, sizes, 2.0)
        elif kind == "weight":
            sizes, scale, shift = [int(number) for number in numbers], None, 0.0
            if rest[1:] == ("positive",):
                scale, shift = 0.5, 1.0
            elif rest[1:]:
                scale = float(rest[1])
            self.weights.append(onnx.numpy_helper.from_array(drawn(name, sizes, scale, shift), name))
        else:
            sys.exit(kind + "?")

    def run(self, output):
        graph = onnx.helper.make_graph(
            self.nodes, self.title, self.inputs,
            [onnx.helper.make_tensor_value_info(output, 1, None)], self.weights)
        model = onnx.helper.make_model(
            graph, opset_imports=[onnx.helper.make_opsetid("", self.opset),
                                  onnx.helper.make_opsetid("com.microsoft", 1)], ir_version=8)
        session = onnxruntime.InferenceSession(model.SerializeToString())
        return session.run([output], self.data)[0]


def main():
    print("# By tests/io/onnx_values.py with ONNX Runtime %s." % onnxruntime.__version__)
    model = None
    for line in MODELS.strip().splitlines():
        words = line.split()
        if words[:1] == ["model"]:
            model = Model(*words[1:])
        elif words[:1] == ["output"]:
            result = model.run(words[1])
            shown = result.flatten()
            step = -(-shown.size // N_SHOWN) | 1
            print(line, ",".join(str(size) for size in result.shape),
                  *("%.9g" % element for element in shown[::step]))
            continue
        elif words:
            model.add(*words)
        print(line)


main()
