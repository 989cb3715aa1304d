/* A library whose constructor calls into the program that loads it. */
extern void stacktest_in_constructor(void) __attribute__((weak));
static __attribute__((constructor)) void construct(void)
{
    if (stacktest_in_constructor)
        stacktest_in_constructor();
    __asm__ volatile(""); /* no tail call */
}
