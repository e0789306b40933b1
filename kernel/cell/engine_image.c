/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the ranks are, and the image of the containers in which the group's ranks run (--in): which
 * one a cell wants, and whether its engine can have it. */
#include <string.h>

#include "kernel/cell/cell_before.h"
#include "kernel/cell/cell_nodes.h"

static const char none[] = "none"; /* as --in and the setting say it */

static bool is_engine(const char *on, const char *name)
{
    const size_t n = strcspn(on, ":");

    return strlen(name) == n && memcmp(on, name, n) == 0;
}

static bool has_images(const char *on)
{
    return is_engine(on, "ssh") || is_engine(on, "slurm");
}

bool engine_is_other(const struct group *g, const char *on)
{
    return strcmp(on, g->on ? g->on : "local") != 0;
}

/* A cell that says nothing runs where the group's ranks are. With another --on, the setting counts,
 * where it can. */
const char *engine_image(const struct cell *c)
{
    const struct group *g = c->nb->group;
    const char *on = c->plan.on, *image = c->plan.image;

    if (!image && !(on && engine_is_other(g, on)))
        return g->image;
    if (!image)
        image = c->nb->config.cells.image;
    if (!on)
        on = g->on;
    return !on || !has_images(on) || !*image || strcmp(image, none) == 0 ? NULL : image;
}

bool engine_image_is_other(const struct cell *c)
{
    const char *image = engine_image(c), *now = c->nb->group->image;

    return image && now ? strcmp(image, now) != 0 : image != now;
}

int engine_image_check(struct cell *c)
{
    const char *on = c->plan.on ? c->plan.on : c->nb->group->on, *image = c->plan.image;
    const int n = on ? (int)strcspn(on, ":") : 0;

    if (!image || strcmp(image, none) == 0)
        return 0;
    if (image[0] == '-')
        return cell_fail(
            c, "UsageError",
            "--in %s: it begins with a -: write an image, as docker://NAME or ~/FILE.sif", image);
    if (on && has_images(on))
        return 0;
    if (!on || is_engine(on, "local"))
        return cell_fail(
            c, "UsageError",
            "--in %s: ranks on this machine run where the notebook does: start Jupyter in the image, "
            "or add --on ssh:HOST or --on slurm, whose ranks run in it",
            image);
    return cell_fail(
        c, "UsageError",
        "--in %s: ranks of --on %.*s can't run in it, only those of ssh and slurm can: "
        "leave --in out, and have %.*s itself start what it runs in the image",
        image, n, on, n, on);
}

int engine_image_refuse(struct cell *c)
{
    const char *now = c->nb->group->image, *image = engine_image(c);

    return cell_fail(c, "UsageError", "--in %s: the ranks are in %s (%s)", image ? image : none,
                     now ? now : "no container",
                     cell_own_group(c) ? "%ranks stop ends them; then run this again"
                                       : "--fresh ends them and starts new ones there");
}
