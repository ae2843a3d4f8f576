/* progress.c: prints a line on the terminal that shows that the program is working, and how far it
 * is.
 *
 * A thread draws the line once a second, because a large picture or one step of a verification
 * keeps the caller busy for longer than users would wait without a sign of life. The thread and the
 * line exist only on a terminal. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/common/cli.h"

#define FIRST 1.0 /* seconds before the line appears */
#define NEXT 0.1

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* the innermost task, which is shown; `below` links to the enclosing task */
static cli_progress *top;
static bool ticking;

double cli_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void erase(cli_progress *p)
{
    if (p->shown != 0)
        fputs("\r\033[K", stderr);
    p->shown = 0;
}

static void draw_bar(const cli_progress *p, double spent)
{
    enum { WIDTH = 30 };
    const double share = p->done < p->total ? p->done / p->total : 1;
    const double left = share > 0.02 ? spent * (1 - share) / share : 0;
    const int full = (int)(share * WIDTH);
    fprintf(stderr, "\r%s [%.*s%*s] %3.0f %%", p->text, full, "##############################",
            WIDTH - full, "", 100 * share);
    if (p->unit)
        fprintf(stderr, "  %.3g %s/s", p->done / spent, p->unit);
    if (left > 2 * 3600)
        fprintf(stderr, "  %.1f h left ", left / 3600);
    else if (left > 120)
        fprintf(stderr, "  %.0f min left ", left / 60);
    else if (share > 0.02)
        fprintf(stderr, "  %.0f s left ", left);
}

static void draw(cli_progress *p)
{
    const double now = cli_seconds(), spent = now - p->begin;
    if (spent < FIRST || now - p->shown < NEXT)
        return;
    p->shown = now;
    if (p->done > 0 && p->total > 0)
        draw_bar(p, spent);
    else
        fprintf(stderr, "\r%s, %.0f s", p->text, spent);
    fputs("\033[K", stderr);
}

static void *tick(void *unused)
{
    const struct timespec second = {1, 0};
    for (;;) {
        nanosleep(&second, NULL);
        pthread_mutex_lock(&lock);
        if (top)
            draw(top);
        pthread_mutex_unlock(&lock);
    }
    return unused;
}

void cli_progress_begin(cli_progress *p, const char *what)
{
    pthread_t thread;
    *p = (cli_progress){.what = what, .begin = cli_seconds()};
    snprintf(p->text, sizeof p->text, "%s", what);
    if (!isatty(STDERR_FILENO))
        return;
    pthread_mutex_lock(&lock);
    p->below = top;
    top = p;
    if (!ticking && pthread_create(&thread, NULL, tick, NULL) == 0)
        ticking = pthread_detach(thread) == 0;
    pthread_mutex_unlock(&lock);
}

void cli_progress_show(cli_progress *p, double done, double total)
{
    pthread_mutex_lock(&lock);
    p->done = done;
    p->total = total;
    snprintf(p->text, sizeof p->text, "%s", p->what); /* the caller may have changed `what` */
    if (p == top)
        draw(p);
    pthread_mutex_unlock(&lock);
}

void cli_progress_hide(void)
{
    pthread_mutex_lock(&lock);
    if (top)
        erase(top);
    pthread_mutex_unlock(&lock);
}

void cli_progress_end(cli_progress *p)
{
    pthread_mutex_lock(&lock);
    if (p == top) {
        erase(p);
        top = p->below;
    }
    pthread_mutex_unlock(&lock);
}
