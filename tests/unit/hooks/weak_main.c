/* weak_main.c - asks the library of weak.c. */
int check(void);

int main(void)
{
    return check();
}
