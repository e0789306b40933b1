/* main.c - the `cellspan` command: a table of subcommands. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/suggest.h"
#include "base/settings.h"
#include "cli/parts.h"

static const struct subcommand subcommands[] = {
    { "install", command_install, "make the kernel known to Jupyter", install_rows },
    { "uninstall", command_uninstall, "remove what install has written", uninstall_rows },
    { "run", command_run, "run a script on several ranks, as torchrun does", NULL },
};

#define COUNT (sizeof subcommands / sizeof subcommands[0])

static void show_help(FILE *to)
{
    fputs("usage: cellspan COMMAND [options]\n\n", to);
    for (const struct subcommand *s = subcommands; s < subcommands + COUNT; s++)
        fprintf(to, "  %-12s %s\n", s->name, s->help);
    fputs(
        "\n  --settings   the environment variables that cellspan reads, and what they are now\n  --version    print the version\n  --help       this text; cellspan COMMAND --help for a command's own\n",
        to);
}

static const struct subcommand *find(const char *name)
{
    for (const struct subcommand *s = subcommands; s < subcommands + COUNT; s++)
        if (!strcmp(s->name, name))
            return s;
    return NULL;
}

static int unknown(const char *name)
{
    const char *names[COUNT + 3] = { "--version", "--help", "--settings" };
    const char *nearest;

    for (size_t i = 0; i < COUNT; i++)
        names[i + 3] = subcommands[i].name;
    nearest = suggest_nearest(name, names, COUNT + 3);
    if (nearest)
        fprintf(stderr, "cellspan: there is no command %s; did you mean %s?\n", name, nearest);
    else
        fprintf(stderr, "cellspan: there is no command %s; cellspan --help lists them\n", name);
    return 2;
}

/* `cellspan help run` is `cellspan run --help`. */
static int help(int argc, char **argv)
{
    const struct subcommand *s = argc > 2 ? find(argv[2]) : NULL;
    char flag[] = "--help";

    if (s)
        return s->main(2, (char *[]){ argv[2], flag, NULL });
    if (argc > 2)
        return unknown(argv[2]);
    show_help(stdout);
    return 0;
}

/* What is set here; a kernel has the environment in which its server was started. */
static int show_settings(void)
{
    struct buf mistakes = BUF_INIT;
    int rc;

    printf("%-26s  %-16s  %-21s  %s\n", "setting", "now", "default", "");
    for (size_t i = 0; i < N_SETTINGS; i++) {
        const char *now = setting_text((enum setting)i);

        printf("%-26s  %-16s  %-21s  %s\n", setting_rows[i].name, now ? now : "-",
               setting_rows[i].standard, setting_rows[i].help);
    }
    rc = settings_mistakes(&mistakes) < 0 || mistakes.n ? 1 : 0;
    fputs(mistakes.n ? mistakes.p : "", stderr);
    buf_release(&mistakes);
    return rc;
}

int main(int argc, char **argv)
{
    const struct subcommand *s;

    if (argc < 2) {
        show_help(stderr);
        return 2;
    }
    s = find(argv[1]);
    if (s)
        return s->main(argc - 1, argv + 1);
    if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
        puts("cellspan " CELLSPAN_VERSION);
        return 0;
    }
    if (!strcmp(argv[1], "--settings"))
        return show_settings();
    if (!strcmp(argv[1], "--complete")) { /* for shells: WORD..., the last word being typed */
        shell_complete_print(subcommands, COUNT, argv + 2);
        return 0;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help"))
        return help(argc, argv);
    return unknown(argv[1]);
}
