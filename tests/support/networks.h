/* The networks of the zoo by name, for tests that have a test of each. */
#ifndef TESTS_SUPPORT_NETWORKS_H
#define TESTS_SUPPORT_NETWORKS_H

/* X(name) of all but vgg16, whose 130 million weights take minutes to draw and pack in builds that
 * are not optimised. */
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
