/* jupyter_fuzz.c - the fuzzer's entry, fed with a good message changed at random: the same changes each time. */
#include <stdint.h>
#include <string.h>

#include "tests/unit/tap.h"

#define ROUNDS 20000u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t state = 2463534242u;

static uint32_t next(void) /* xorshift */
{
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

int main(void)
{
    static const char good[] = "id\n<IDS|MSG>\nsig\n{\"msg_id\":\"a\",\"msg_type\":\"execute_request\"}\n{}\n{\"m\":[1]}\n"
                               "{\"code\":\"1+1 # \\u00e9\",\"silent\":false,\"n\":[{\"a\":1e5},null,true]}\nbuffer";
    static const char bytes[] = "{}[]\",:\\\n\0\xff<0e";
    uint8_t data[sizeof good];

    for (unsigned round = 0; round < ROUNDS; round++) {
        size_t size = sizeof good - 1;

        memcpy(data, good, sizeof good);
        for (uint32_t i = next() % 8; i > 0; i--)
            data[next() % size] = (uint8_t)bytes[next() % (sizeof bytes - 1)];
        if (next() % 4 == 0)
            size = next() % size;
        LLVMFuzzerTestOneInput(data, size);
    }
    ok(true, "%u changed messages are read or refused", ROUNDS);
    return plan_done();
}
