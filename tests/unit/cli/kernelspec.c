/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of cli/kernelspec.h; they write below the folder that they run in. */
#include "cli/kernelspec.h"

#include <jansson.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "tests/unit/tap.h"

static void is_dir(const char *prefix, const char *want, const char *sentence)
{
    struct err err = { "" };
    char *dir = kernelspec_dir(prefix, "x", &err);

    is_text(dir, want, "%s", sentence);
    free(dir);
}

static void the_users_folder_is_jupyters(void)
{
    setenv("JUPYTER_DATA_DIR", "/j", 1);
    setenv("XDG_DATA_HOME", "/x", 1);
    setenv("HOME", "/h", 1);
    is_dir("/p", "/p/share/jupyter/kernels/x", "a prefix has its kernels in share/jupyter");
    is_dir(NULL, "/j/kernels/x", "JUPYTER_DATA_DIR comes first");
    setenv("JUPYTER_DATA_DIR", "", 1);
#ifdef __APPLE__
    is_dir(NULL, "/h/Library/Jupyter/kernels/x", "then the Library folder");
#else
    is_dir(NULL, "/x/jupyter/kernels/x", "then XDG_DATA_HOME");
    unsetenv("XDG_DATA_HOME");
    is_dir(NULL, "/h/.local/share/jupyter/kernels/x", "then the home folder");
#endif
}

static void names_are_jupyters(void)
{
    const char *const good[] = { "cellspan", "py3.11", "A_b-c", "..." };
    const char *const bad[] = { "", ".", "..", "a b", "a/b", "../x", "\xc3\xbc", "a\n" };
    struct err err = { "" };

    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        ok(kernelspec_check_name(good[i], &err) == 0, "%s is a kernel's name", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ok(kernelspec_check_name(bad[i], &err) < 0, "'%s' is none", bad[i]);
}

static const char *text_at(const json_t *root, const char *key)
{
    return json_string_value(json_object_get(root, key));
}

static const char *argument(const json_t *root, size_t i)
{
    return json_string_value(json_array_get(json_object_get(root, "argv"), i));
}

static json_t *load(const char *dir)
{
    struct buf path = BUF_INIT;
    json_t *root = buf_addf(&path, "%s/kernel.json", dir) ? NULL : json_load_file(path.p, 0, NULL);

    buf_release(&path);
    return root;
}

static void what_is_written_is_a_kernelspec(const char *dir)
{
    struct kernelspec spec = { "/bin/\"k\"/cellspan-kernel", "/p y", "3.11.7", "P\xc3\xbc" };
    struct err err = { "" };
    json_t *root;

    ok(kernelspec_write(dir, &spec, &err) == 0, "a spec is written where there was no folder: %s",
       err.text);
    root = load(dir);
    is_int(json_array_size(json_object_get(root, "argv")), 7, "its argv has seven words");
    is_text(argument(root, 0), "/bin/\"k\"/cellspan-kernel",
            "first the kernel, whatever characters its path has");
    is_text(argument(root, 2), "/p y", "then its Python");
    is_text(argument(root, 6), "{connection_file}", "last the connection file");
    is_text(text_at(root, "interrupt_mode"), "message", "interrupts come as messages");
    is_text(text_at(root, "display_name"), "P\xc3\xbc", "the display name is as given");
    ok(!json_object_get(root, "env"), "no environment is set");
    json_decref(root);
    spec.python = "/other";
    ok(kernelspec_write(dir, &spec, &err) == 0, "a spec is replaced");
    root = load(dir);
    is_text(argument(root, 2), "/other", "by the new one");
    json_decref(root);
    spec.display_name = "\xff";
    ok(kernelspec_write(dir, &spec, &err) < 0 && *err.text,
       "a display name that is not UTF-8 is refused: %s", err.text);
}

static void anothers_is_not_replaced(const char *dir)
{
    const struct kernelspec other = { "/bin/python3", "p", "3", "d" },
                            own = { "/bin/cellspan-kernel", "p", "3", "d" };
    struct err err = { "" };
    json_t *root;

    ok(kernelspec_write(dir, &other, &err) == 0, "another program's kernelspec is there");
    ok(kernelspec_write(dir, &own, &err) < 0 && strstr(err.text, "it starts /bin/python3") &&
           strstr(err.text, "--name"),
       "it is not replaced: %s", err.text);
    root = load(dir);
    is_text(argument(root, 0), "/bin/python3", "and stays as it is");
    json_decref(root);
}

static void what_cant_be_written_is_said(const char *dir)
{
    const struct kernelspec spec = { "k", "p", "3", "d" };
    struct err err = { "" };
    struct buf path = BUF_INIT;

    if (buf_addf(&path, "%s/kernel.json/below", dir))
        return;
    ok(kernelspec_write(path.p, &spec, &err) < 0, "a file in the folder's place is an error");
    ok(strstr(err.text, "kernel.json") != NULL, "that names it: %s", err.text);
    buf_release(&path);
}

int main(void)
{
    char dir[] = "kernelspec-XXXXXX";
    struct buf at = BUF_INIT, clean = BUF_INIT;

    the_users_folder_is_jupyters();
    names_are_jupyters();
    if (!mkdtemp(dir) || buf_addf(&at, "%s/a/b", dir) || buf_addf(&clean, "rm -rf %s", dir))
        return 1;
    what_is_written_is_a_kernelspec(at.p);
    what_cant_be_written_is_said(at.p);
    if (!buf_add_text(&at, "/other"))
        anothers_is_not_replaced(at.p);
    ok(system(clean.p) == 0, "the folder can be removed");
    buf_release(&at);
    buf_release(&clean);
    return plan_done();
}
