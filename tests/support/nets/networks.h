/* Lists of the zoo's networks, for macros that make one test per network. */
#ifndef TESTS_SUPPORT_NETWORKS_H
#define TESTS_SUPPORT_NETWORKS_H

/* X(name) of all but vgg16, whose 130 million weights take minutes in builds without
 * optimisation. */
#define NETWORKS_BUT_VGG(X)                                                                        \
    X(alexnet)                                                                                     \
    X(resnet18)                                                                                    \
    X(resnet50)                                                                                    \
    X(resnext50_32x4d)                                                                             \
    X(mobilenet_v2)                                                                                \
    X(densenet121)                                                                                 \
    X(squeezenet1_1)                                                                               \
    X(googlenet)

/* X(name) of each. */
#define NETWORKS(X) X(vgg16) NETWORKS_BUT_VGG(X)

#endif
