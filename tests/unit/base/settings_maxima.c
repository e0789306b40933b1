/* SPDX-License-Identifier: BSD-3-Clause */
/* What the site's file limits: [maximum], and the quota of GPUs, of which the smallest counts. */
#include <stdlib.h>

#include "base/clock.h"
#include "tests/unit/base/settings_folder.h"

static void nothing_exceeds_the_maximum(void)
{
    const char *const site = "capture_limit = \"8G\"\n[maximum]\ncapture_limit = \"1G\"\n"
                             "resume = 300\nhang_notice = \"5m\"\nstart_timeout = 60\n";
    struct settings_files f;

    write_file(SITE, site);
    write_file(USER, "resume = 200\n");
    setenv("CELLSPAN_HANG_NOTICE", "off", 1);
    ok(read_all(&f) == 0, "maxima");
    is_text(text_of(&f), "", "nothing is wrong");
    is_int((int64_t)setting_value(SETTING_CAPTURE_LIMIT), 1 << 30, "not the site's own value");
    is_int((int64_t)setting_value(SETTING_HANG_NOTICE), 300 * (int64_t)NS_PER_S,
           "nor what the environment says: off is more than any");
    is_int((int64_t)setting_value(SETTING_START_TIMEOUT), 60 * (int64_t)NS_PER_S,
           "nor the default");
    is_int((int64_t)setting_value(SETTING_RESUME), 200 * (int64_t)NS_PER_S, "what is less counts");
    ok(f.now[SETTING_CAPTURE_LIMIT].over && !f.now[SETTING_RESUME].over &&
           f.now[SETTING_HANG_NOTICE].over && f.now[SETTING_START_TIMEOUT].over,
       "it is known which are above");
    is_text(setting_text(SETTING_START_TIMEOUT), "60", "programs that read the text get it, too");
    setenv("CELLSPAN_CAPTURE_LIMIT", "64G", 1);
    is_int((int64_t)setting_value(SETTING_CAPTURE_LIMIT), 1 << 30, "nor what a process sets later");
    settings_files_release(&f);
    remove_all();
    says(
        "[maximum]\nmerge = \"raw\"\nresme = 3\n", NULL, NULL,
        "site.toml:2: maximum.merge: only durations, sizes, gpu_idle and numbers of ranks or GPUs have a maximum\n"
        "site.toml:3: maximum.resme: there is no such setting; did you mean resume?\n",
        "a maximum of what has none");
    remove_all();
    says("maximum = 3\n", NULL, NULL, "site.toml:1: maximum: a table is wanted: [maximum]\n",
         "no table");
    remove_all();
}

static void options_have_maxima(void)
{
    says("[maximum]\nn = 8\ntimeout = \"12h\"\ngrace = 30\n", NULL, "n = 64\ngrace = 5\n", "",
         "maxima of options");
    is_int((int64_t)setting_value(SETTING_N), 8, "a project's number of ranks");
    is_int((int64_t)setting_value(SETTING_TIMEOUT), 43200 * (int64_t)NS_PER_S, "never is more");
    is_int((int64_t)setting_value(SETTING_GRACE), 5 * (int64_t)NS_PER_S, "and what is less counts");
    is_int((int64_t)setting_most(SETTING_GRACE), 30 * (int64_t)NS_PER_S, "the maximum itself");
    is_int((int64_t)setting_most(SETTING_RESUME), 0, "which others don't have");
    remove_all();
    says("[maximum]\nn = 8\n", NULL, "n = 0\n",
         "cellspan.toml:1: n = 0: a whole number is wanted, from 1 to 65536, or auto\n",
         "no number");
    is_int((int64_t)setting_value(SETTING_N), 0, "the number that fits the machine is no text");
    remove_all();
    says("[maximum]\nn = \"auto\"\n", NULL, "n = 9\n", "", "no maximum");
    is_int((int64_t)setting_value(SETTING_N), 9, "limits nothing");
    remove_all();
}

static void idle_gpus_have_maxima(void)
{
    setenv("JUPYTERHUB_API_URL", "http://127.0.0.1:8081/hub/api", 1);
    says("[maximum]\ngpu_idle_release = \"1h\"\n", NULL, NULL, "", "a maximum on a hub");
    is_int((int64_t)setting_value(SETTING_GPU_IDLE_RELEASE), 900 * (int64_t)NS_PER_S,
           "the hub's own default is less");
    unsetenv("JUPYTERHUB_API_URL");
    says("[maximum]\ngpu_idle_release = \"1h\"\n", NULL, NULL, "", "elsewhere");
    is_int((int64_t)setting_value(SETTING_GPU_IDLE_RELEASE), 3600 * (int64_t)NS_PER_S,
           "the default is never, which is more");
    remove_all();
    says("[maximum]\ngpu_idle = \"end\"\n", "gpu_idle = \"park\"\n", NULL, "", "no parking");
    is_int((int64_t)setting_value(SETTING_GPU_IDLE), GPU_IDLE_END, "which frees no GPUs then");
    is_int(setting_gpu_idle(), GPU_IDLE_END, "nor keeps them");
    remove_all();
    says("[maximum]\ngpu_idle = \"park\"\n", "gpu_idle = \"keep\"\n", NULL, "", "at most parked");
    is_int(setting_gpu_idle(), GPU_IDLE_PARK, "they don't keep their GPUs");
    setenv("SLURM_JOB_ID", "1", 1);
    is_int(setting_gpu_idle(), GPU_IDLE_END, "nor in an allocation");
    unsetenv("SLURM_JOB_ID");
    remove_all();
    says("[maximum]\ngpu_idle = \"park-or-keep\"\n", NULL, NULL, "", "the default is less");
    is_int(setting_gpu_idle(), GPU_IDLE_END, "they end");
    remove_all();
}

/* ---- a quota ---- */

static void is_quota(const char *site, const char *user, const char *project,
                     const char *environment, int64_t quota, const char *place, const char *what)
{
    if (environment)
        setenv("CELLSPAN_GPU_QUOTA", environment, 1);
    says(site, user, project, "", what);
    is_int((int64_t)setting_value(SETTING_GPU_QUOTA), quota, "so many GPUs");
    is_text(setting_place(SETTING_GPU_QUOTA), place, "who has set it");
    remove_all();
}

static void the_smallest_quota_counts(void)
{
    struct settings_files f;

    is_quota(NULL, NULL, NULL, NULL, 0, "", "no quota");
    is_quota("gpu_quota = 2\n", NULL, NULL, NULL, 2, "site.toml:1", "the site's");
    is_quota("gpu_quota = 2\n", "\ngpu_quota = 4\n", "gpu_quota = 8\n", "16", 2, "site.toml:1",
             "nobody raises it");
    is_quota("gpu_quota = 4\n", "\ngpu_quota = 3\n", "\n\ngpu_quota = 1\n", "2", 1,
             "cellspan.toml:3", "anybody lowers it");
    is_quota("gpu_quota = 4\n", NULL, NULL, "3", 3, "", "also the environment");
    is_quota("gpu_quota = 4\n", NULL, "gpu_quota = \"off\"\n", "off", 4, "site.toml:1",
             "off is the largest");
    is_quota("gpu_quota = 4\n[maximum]\ngpu_quota = 2\n", NULL, NULL, NULL, 2, "site.toml:3",
             "two of one file");
    is_quota("gpu_quota = 2\n[maximum]\ngpu_quota = 4\n", NULL, NULL, NULL, 2, "site.toml:1",
             "whichever is the smaller one");
    is_quota("[maximum]\ngpu_quota = 2\n", NULL, NULL, NULL, 2, "site.toml:2",
             "a maximum is a quota");
    is_quota("[maximum]\ngpu_quota = 2\n", NULL, "gpu_quota = 3\n", "off", 2, "site.toml:2",
             "for all");
    write_file(SITE, "gpu_quota = 2\n");
    write_file(USER, "gpu_quota = 4\n");
    setenv("CELLSPAN_GPU_QUOTA", "off", 1);
    ok(read_all(&f) == 0 && f.now[SETTING_GPU_QUOTA].larger, "what does not count is kept");
    is_text(f.now[SETTING_GPU_QUOTA].larger,
            "4, user.toml:1; off, CELLSPAN_GPU_QUOTA in the environment", "with its places");
    settings_files_release(&f);
    remove_all();
    says("gpu_quota = -1\n", "gpu_quota = \"x\"\n", "gpu_quota = 0\n",
         "site.toml:1: gpu_quota = -1: a whole number is wanted, from 1 to 4096, or off\n"
         "user.toml:1: gpu_quota = \"x\": a whole number is wanted, from 1 to 4096, or off\n"
         "cellspan.toml:1: gpu_quota = 0: a whole number is wanted, from 1 to 4096, or off\n",
         "no quotas");
    is_int((int64_t)setting_value(SETTING_GPU_QUOTA), 0, "are none");
    remove_all();
    setenv("CELLSPAN_GPU_QUOTA", "-1", 1);
    says("gpu_quota = 2\n", NULL, NULL,
         "CELLSPAN_GPU_QUOTA=-1: a whole number is wanted, from 1 to 4096, or off; 2 of "
         "site.toml:1 is used\n",
         "one in the environment that is none");
    is_int((int64_t)setting_value(SETTING_GPU_QUOTA), 2, "raises nothing");
    remove_all();
}

int main(void)
{
    char template[] = "/tmp/settings-XXXXXX";

    if (!folder_begin(template))
        return 99;
    nothing_exceeds_the_maximum();
    options_have_maxima();
    idle_gpus_have_maxima();
    the_smallest_quota_counts();
    (void)rmdir(template);
    return plan_done();
}
