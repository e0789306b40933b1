/* SPDX-License-Identifier: BSD-3-Clause */
/* main.c - the `cellspan` command: a table of subcommands. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/process.h"
#include "base/suggest.h"
#include "base/settings.h"
#include "cli/private.h"

static const struct subcommand subcommands[] = {
    { "install", command_install, "make the kernel known to Jupyter", install_rows, false },
    { "uninstall", command_uninstall, "remove what install has written", uninstall_rows, true },
    { "run", command_run, "run a script on several ranks, as torchrun does", NULL, false },
    { "ps", command_ps, "list what runs as this user: notebooks, their ranks, GPUs", ps_rows,
      false },
    { "logs", command_logs, "print what the ranks of a notebook have printed", logs_rows, false },
    { "stop", command_stop, "end a kernel of this user, with all its ranks", stop_rows, true },
    { "notice", command_notice, "tell ranks on this machine that it will be gone soon", notice_rows,
      false },
    { "doctor", command_doctor, "say what is wrong with this machine's set-up, and the fix",
      doctor_rows, false },
    { "config", command_config, "show each setting of this folder, and where it comes from",
      config_rows, false },
};

#define COUNT (sizeof subcommands / sizeof subcommands[0])

struct own {
    bool version, settings, help;
};

static const struct cmdline_row own_rows[] = {
    { "help", NULL, "this text; cellspan COMMAND --help for a command's own",
      offsetof(struct own, help) },
    { "settings", NULL, "the environment variables that cellspan reads, and what they are now",
      offsetof(struct own, settings) },
    { "version", NULL, "print the version", offsetof(struct own, version) },
    { "V", NULL, "the same", offsetof(struct own, version) },
    { NULL, NULL, NULL, 0 },
};

static void show_help(FILE *to)
{
    fputs("usage: cellspan COMMAND [options]\n\n", to);
    for (const struct subcommand *s = subcommands; s < subcommands + COUNT; s++)
        fprintf(to, "  %-22s %s\n", s->name, s->help);
    fputs("\n", to);
    cmdline_help(own_rows, to);
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
    const char *names[COUNT], *nearest;
    size_t n = 0;

    for (size_t i = 0; i < COUNT; i++)
        if (!subcommands[i].destroys)
            names[n++] = subcommands[i].name;
    nearest = suggest_nearest(name, names, n);
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

/* cellspan's own option, which stands alone. */
static int own_option(int argc, char **argv)
{
    struct own own = { false, false, false };
    struct err err = { "" };

    if (cmdline_parse(own_rows, 2, argv, NULL, &own, &err) < 0) {
        fprintf(stderr, "cellspan: %s\n", err.text);
        return 2;
    }
    if (own.settings)
        return show_settings();
    if (own.version)
        return puts("cellspan " CELLSPAN_VERSION) < 0;
    return help(argc, argv);
}

int main(int argc, char **argv)
{
    const struct subcommand *s;

    (void)fd_open_standard();
    if (argc < 2) {
        show_help(stderr);
        return 2;
    }
    s = find(argv[1]);
    if (s)
        return s->main(argc - 1, argv + 1);
    /* for shells, not for people: WORD..., the last word being typed */
    if (!strcmp(argv[1], "--complete")) {
        shell_complete_print(subcommands, COUNT, own_rows, argv + 2);
        return 0;
    }
    if (!strcmp(argv[1], "help"))
        return help(argc, argv);
    return argv[1][0] == '-' ? own_option(argc, argv) : unknown(argv[1]);
}
