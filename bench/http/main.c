#include "../common/bench.h"
int main(int argc, char **argv)
{
    static const struct bench_suite suite = {"bench-http", 0, 0};
    return bench_main(argc, argv, &suite);
}
