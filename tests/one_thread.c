/* one_thread.c - stands in for pthread_create in the tests that start no thread (vs_one_thread in
 * CMakeLists.txt): the thread sanitizer does not run them, so the first one that would be started ends the
 * test. */
#include <stdio.h>
#include <stdlib.h>

int __wrap_pthread_create(void);

int __wrap_pthread_create(void)
{
    fputs("a thread is started in a test that is said to start none: take it out of vs_one_thread\n", stderr);
    abort();
}
