/* dino_mpi.c - one DINO run on several processes or machines

       mpicc -O2 demos/studies/dino_mpi.c -o dino_mpi -lm -lpthread
       mpirun -n 4 ./dino_mpi --images photos --steps 2000 --out run.safetensors
       ./dino_mpi --shards 4 --images photos --steps 2000 --out same.safetensors

   Both lines write the same bytes: a batch is cut into as many shards as there are processes (or
   as --shards says), and what they add up to is added in the order of the shards, whoever made
   them. Each process reads the pictures itself; what travels in a step is one array: gradients,
   centre and loss, a little more than the parameters of backbone and head. A process that dies
   ends all of them, as MPI does it; the file of the last save is whole, and --load goes on with
   it. */
#ifndef _WIN32
#define _POSIX_C_SOURCE 200112L
#endif
#ifndef MMIX_LINKED
#define MAMBA_MIX_IMPLEMENTATION
#endif
#define REPORT_PROGRAM "dino_mpi"
#include "../../mamba_mix.h"
#include "pictures.h"
#include "scenes.h"
#include "program.h"
#include "evaluate.h"
#include "report.h"
#include "learn.h"
#include <limits.h>
#include <mpi.h>

#define fail report_refuse

enum { SWARMS = 500 };

static const char help[] =
    "dino_mpi - one DINO run on several processes\n\n"
    "  --images DIR    as dino's                                      (drawn swarms)\n"
    "  --mixer NAME    softmax, linear, ssd or registers              (softmax)\n"
    "  --steps N       (200)\n"
    "  --seed N        (1)\n"
    "  --set NAME=X    a number of the recipe, as dino's\n"
    "  --shards N      in one process: as many as another run had processes\n"
    "  --out FILE      the run, saved now and then and at the end     "
    "(build/dino-mpi.safetensors)\n"
    "  --every S       seconds from one save to the next              (120)\n"
    "  --load FILE     go on with it, on the same pictures: what it learns, how, and in how many\n"
    "                  steps and shards the run decides\n"
    "  --threads N     of each process                                (1)\n";

/* The sum over all processes in the order of their ranks, ((x0 + x1) + x2) + …: MPI_Allreduce
   may add in any. Each rank gets its piece of all arrays, adds, and hands it round: less than 2
   n numbers in and out, however many ranks there are. */
typedef struct pieces {
    int ranks;
    size_t piece;
    mmix_real *in, *out;
} pieces;
static int sum_pieces(void *user, mmix_real *x, size_t n)
{
    pieces *r = (pieces *)user;
    const MPI_Datatype real = sizeof(mmix_real) == sizeof(float) ? MPI_FLOAT : MPI_DOUBLE;
    size_t piece = (n + (size_t)r->ranks - 1) / (size_t)r->ranks;
    size_t all = piece * (size_t)r->ranks;
    if (piece > r->piece) {
        free(r->in);
        r->piece = piece;
        r->in = (mmix_real *)malloc(2 * all * sizeof *x);
        r->out = r->in ? r->in + all : NULL;
    }
    if (!r->in || piece > INT_MAX) return -1;
    memcpy(r->out, x, n * sizeof *x);
    memset(r->out + n, 0, (all - n) * sizeof *x);
    if (MPI_Alltoall(r->out, (int)piece, real, r->in, (int)piece, real, MPI_COMM_WORLD)) return -1;
    for (size_t k = 1; k < (size_t)r->ranks; k++)
        for (size_t i = 0; i < piece; i++) r->in[i] += r->in[k * piece + i];
    if (MPI_Allgather(r->in, (int)piece, real, r->out, (int)piece, real, MPI_COMM_WORLD)) return -1;
    memcpy(x, r->out, n * sizeof *x);
    return 0;
}

/* What a run is kept with, beside what the library keeps: which pictures, and recipe.bf16. */
enum { NOTE = 80 };
static void write_note(const recipe *r, const pictures *p, char note[NOTE])
{
    snprintf(note, NOTE, "dino_mpi pictures %016llx bf16 %d",
             (unsigned long long)pictures_fingerprint(p), r->bf16 > 0);
}
/* Steps to the end. 0, or an exit status. */
static int train(mmix_ctx *m, const recipe *r, mmix_dino *d, const pictures *p, const char *out,
                 double every, int rank)
{
    char note[NOTE];
    write_note(r, p, note);
    double start = now();
    double said = start, saved = start;
    size_t first = 0, done = 0;
    mmix_dino_stats s;
    int more;
    while ((more = recipe_step(m, r, d, &p->train, &s)) > 0) {
        double t = now();
        if (!done++) first = s.step;
        if (rank) continue;
        if (t - saved > every && !mmix_dino_save(d, out, note)) saved = now();
        if (t - said < 5 && s.step + 1 < s.steps) continue;
        said = t;
        double rate = (double)(s.step + 1 - first) / (t - start);
        size_t left = (size_t)((double)(s.steps - s.step - 1) / rate);
        fprintf(stderr, "step %zu of %zu  %.2f steps/s  %zu:%02zu left  loss %.3f  entropy %.2f\n",
                s.step + 1, s.steps, rate, left / 60, left % 60, s.loss, s.teacher_entropy);
    }
    char why[500] = "";
    /* the run is as after its last step */
    if (more < 0) snprintf(why, sizeof why, "%s", mmix_error(m));
    mmix_error_clear(m);
    if (!rank && mmix_dino_save(d, out, note)) return fail("%s", mmix_error(m));
    return more < 0 ? fail("%s", why) : 0;
}

/* Pictures of a folder, or drawn swarms. 0, or -1: p->error, if it is not memory. */
static int get_pictures(pictures *p, mmix_ctx *m, const char *images, uint64_t seed)
{
    if (images) return pictures_load(p, m, images, NULL, 96, 96);
    p->size = 96;
    return swarms_draw(m, &p->train, seed, 96, 0, SWARMS);
}

/* The run of a file, and of its settings those that are used here: swarms are drawn by the seed.
   NULL after a message. */
static mmix_dino *open_run(mmix_ctx *m, const char *load, recipe *r, unsigned long long *seed)
{
    mmix_dino *d = mmix_dino_load(m, load);
    const char *note = d ? mmix_dino_note(d) : "";
    if (!d) fail("%s", mmix_error(m));
    else if (!strncmp(note, "dino_mpi pictures ", 18)) {
        *seed = mmix_dino_config_of(d)->seed;
        r->bf16 = strstr(note, "bf16 1") != NULL;
        return d;
    } else fail("%s: no run that this program goes on with; begin one without --load", load);
    mmix_dino_destroy(d);
    return NULL;
}
/* Whether a run goes on with these pictures and processes. 0, or an exit status. */
static int check_run(const mmix_dino *d, const char *load, const recipe *r, const pictures *p,
                     int ranks)
{
    char note[NOTE];
    size_t shards = mmix_dino_config_of(d)->shards;
    write_note(r, p, note);
    if (strcmp(note, mmix_dino_note(d)))
        return fail("%s: that run began with other pictures; give --images as it was", load);
    if (ranks > 1 && shards != (size_t)ranks)
        return fail("%s: it has %zu shards, here are %d processes", load, shards, ranks);
    return 0;
}

int main(int argc, char **argv)
{
    const char *images = NULL, *mixer = "softmax", *out = "build/dino-mpi.safetensors",
        *load = NULL, *why = NULL, *fixed = NULL;  /* fixed: an option that a loaded run decides */
    const char *set[32];
    char *end;
    size_t sets = 0;
    unsigned long long steps = 200, shards = 0, seed = 1, threads = 1;
    double every = 120;
    int rank = 0, ranks = 1, status = 0;
    recipe r = recipe_standard(MMIX_MIXER_SOFTMAX);
    pieces all = {1, 0, NULL, NULL};
    mmix_options o;
    pictures p;
    memset(&o, 0, sizeof o);
    memset(&p, 0, sizeof p);
    MPI_Init(&argc, &argv);
    (void)interrupt;                                     /* Ctrl-C is mpirun's */
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int i = 1; i < argc && !status; i += 2) {
        static const char *const decided[] = {"--mixer", "--steps", "--seed", "--set", "--shards"};
        const char *name = argv[i];
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        for (size_t k = 0; k < sizeof decided / sizeof *decided; k++)
            if (!strcmp(name, decided[k])) fixed = decided[k];
        if (!strcmp(name, "--help")) {
            if (!rank) fputs(help, stdout);
            status = -1;
        } else if (!*value) status = fail("%s wants a value after it", name);
        else if (!strcmp(name, "--images")) images = value;
        else if (!strcmp(name, "--mixer")) mixer = value;
        else if (!strcmp(name, "--out")) out = value;
        else if (!strcmp(name, "--load")) load = value;
        else if (!strcmp(name, "--every") && !((every = strtod(value, &end)) >= 0 && !*end))
            status = fail("--every %s: give seconds", value);
        else if (!strcmp(name, "--every")) continue;
        else if (!strcmp(name, "--steps")) status = report_whole(name, value, 1, 100000000, &steps);
        else if (!strcmp(name, "--seed")) status = report_whole(name, value, 0, ULLONG_MAX, &seed);
        else if (!strcmp(name, "--shards")) status = report_whole(name, value, 1, 65536, &shards);
        else if (!strcmp(name, "--threads")) status = report_whole(name, value, 1, 64, &threads);
        else if (!strcmp(name, "--set") && sets < 32) set[sets++] = value;
        else status = fail("%s: no such option; --help lists them all", name);
    }
    int kind = 0;
    while (kind < MIXERS && strcmp(mixer, mixer_name[kind])) kind++;
    if (!status && kind == MIXERS)
        status = fail("--mixer %s: give softmax, linear, ssd or registers", mixer);
    if (!status) r = recipe_standard(kind);
    if (!images) recipe_swarms(&r);
    for (size_t i = 0; i < sets && !why; i++) why = recipe_set(&r, set[i]);
    if (!status && (why || (why = recipe_wrong(&r)) != NULL)) status = fail("--set %s", why);
    if (!status && load && fixed)
        status = fail("%s: a loaded run keeps its own settings; leave this out, or --load", fixed);
    if (!status && !rank && report_folders(out))         /* before anything is worked on */
        status = fail("cannot write %s: %s", out, strerror(errno));
    o.threads = (int)threads;
    mmix_ctx *m = status ? NULL : mmix_create(&o);
    mmix_dino *d = NULL;
    if (m && load) d = open_run(m, load, &r, &seed);
    if (m && load && !d) status = 2;
    if (m && !status && get_pictures(&p, m, images, seed))
        status = fail("%s", *p.error ? p.error : "out of memory for the pictures");
    if (m && !status && recipe_beyond(m, &r)) status = fail("--set %s", recipe_beyond(m, &r));
    all.ranks = ranks;
    if (d && !status) status = check_run(d, load, &r, &p, ranks);
    else if (m && !status) {
        mmix_dino_config c = recipe_config(&r, (size_t)steps, seed);
        c.shards = ranks > 1 ? (size_t)ranks : (size_t)shards;
        d = mmix_dino_create(m, c);
        if (!d) status = fail("%s", mmix_error(m));
    }
    if (d && !status) {
        if (ranks == 1 || !mmix_dino_set_allreduce(d, (size_t)rank, sum_pieces, &all))
            status = train(m, &r, d, &p, out, every, rank);
        else status = fail("%s", mmix_error(m));
    }
    mmix_dino_destroy(d);
    free(all.in);
    pictures_free(&p);
    mmix_destroy(m);
    if (status > 0 && ranks > 1) MPI_Abort(MPI_COMM_WORLD, status);
    MPI_Finalize();
    return status > 0 ? status : 0;
}
