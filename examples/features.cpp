/* features.cpp: computes features of a frame, and shows which patches resemble the patch in the
 * centre.
 *
 *   c++ -std=c++17 features.cpp -o features $(pkg-config --cflags --libs fovea)
 *   ./features [model [picture.ppm [attention]]]
 *
 * `model` is a Hugging Face folder or "synthetic:NAME". The picture is a binary PPM. Without
 * arguments, a model with random weights runs on a drawn disc.
 */
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include <fovea/fovea.hpp>

struct picture {
    std::uint32_t width = 224, height = 168;
    std::vector<std::uint8_t> pixels; // R, G, B
};

static picture disc()
{
    picture p;
    for (std::uint32_t y = 0; y < p.height; y++)
        for (std::uint32_t x = 0; x < p.width; x++) {
            const bool inside = std::hypot(x - 112., y - 84.) < 50;
            for (int channel = 0; channel < 3; channel++)
                p.pixels.push_back(inside ? 230 : 40 + x / 4);
        }
    return p;
}

static picture read_ppm(const char *path)
{
    picture p;
    std::ifstream file(path, std::ios::binary);
    std::string magic;
    unsigned most = 0;
    file >> magic >> p.width >> p.height >> most;
    file.get();
    if (!file || magic != "P6" || most != 255)
        throw std::runtime_error(std::string(path) + " is not a binary PPM with 8 bits");
    p.pixels.resize(std::size_t{3} * p.width * p.height);
    if (!file.read(reinterpret_cast<char *>(p.pixels.data()), std::streamsize(p.pixels.size())))
        throw std::runtime_error(std::string(path) + " is truncated");
    return p;
}

static double cosine(const float *a, const float *b, std::size_t n)
{
    double ab = 0, aa = 0, bb = 0;
    for (std::size_t i = 0; i < n; i++) {
        ab += double(a[i]) * b[i];
        aa += double(a[i]) * a[i];
        bb += double(b[i]) * b[i];
    }
    return ab / std::sqrt(aa * bb);
}

int main(int argc, char **argv)
try {
    const std::string first = argc > 1 ? argv[1] : "";
    if (first == "--help" || first == "-h")
        return std::puts("usage: features [MODEL [PICTURE.ppm [ATTENTION]]]") < 0;
    const std::string synthetic = std::string("synthetic:") + fovea_model_synthetic(0);
    const picture frame = argc > 2 ? read_ppm(argv[2]) : disc();
    fovea::device device("cpu");
    fovea::model model(argc > 1 ? argv[1] : synthetic.c_str());

    const char *const wanted[] = {"last_hidden_state"};
    fovea_plan_options options = FOVEA_PLAN_OPTIONS_INIT;
    options.frame.width = frame.width;
    options.frame.height = frame.height;
    options.attention = argc > 3 ? argv[3] : nullptr; // NULL: the model's own
    options.outputs = wanted;
    options.n_outputs = 1;
    fovea::plan plan(model, device, options);

    std::vector<float> features = plan.buffer(0);
    plan.run({{frame.pixels.data()}, {0}}, {features}); // repeat this for every frame

    const fovea_output_info info = plan.output(0);
    std::printf("%s: %u tokens of %u, %u x %u patches\n", model.info().type, info.rows,
                info.columns, info.grid_width, info.grid_height);
    const float *patches = features.data() + std::size_t{info.prefix} * info.columns;
    const std::size_t middle = info.grid_height / 2 * info.grid_width + info.grid_width / 2;
    for (std::size_t i = 0; i < std::size_t{info.grid_width} * info.grid_height; i++) {
        const double like =
            cosine(patches + i * info.columns, patches + middle * info.columns, info.columns);
        if (!std::isfinite(like))
            throw std::runtime_error("a feature is not a number");
        std::putchar(" .:-=+*#%@"[like < 0 ? 0 : int(like * 9.5)]);
        if ((i + 1) % info.grid_width == 0)
            std::putchar('\n');
    }
    return 0;
} catch (const std::exception &e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
}
