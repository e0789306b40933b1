/* input.h - our standard input, a line at a time, for who asks. */
#ifndef CLI_INPUT_H
#define CLI_INPUT_H

#include "base/loop/loop.h"
#include "base/slice.h"

struct input;

/* line: without its end; over: there is none, and none will come. */
typedef void (*input_line_f)(void *arg, struct slice line, bool over);

struct input *input_create(struct loop *loop, input_line_f f, void *arg); /* NULL: memory is out */
void input_destroy(struct input *in);                                     /* NULL is fine */
/* f is called once, now or from the loop; nothing is read before somebody asks. */
void input_ask(struct input *in);

#endif
