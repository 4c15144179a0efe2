/* Cancelling and limits, as far as tensors and memory go. */
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "tensor/interrupt_impl.h"
#include "tests/support/support.h"
