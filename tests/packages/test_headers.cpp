// test_headers.cpp: compiles the public headers alone, as pedantic C++17, and tests fovea.hpp.
#include <fovea/adapt.h>
#include <fovea/fovea.h>
#include <fovea/fovea.hpp>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory_resource>
#include <new>
#include <thread>
#include <type_traits>
#include <utility>

template <typename T>
constexpr bool moves =
    std::is_nothrow_move_constructible_v<T> &&std::is_nothrow_move_assignable_v<T> &&
    !std::is_copy_constructible_v<T>;
static_assert(moves<fovea::device> && moves<fovea::model> && moves<fovea::plan> &&
              moves<fovea::external_image> && moves<fovea::operation> && moves<fovea::state> &&
              moves<fovea::sequence> && moves<fovea::borrowing_mailbox<int>> &&
              moves<fovea::mailbox<int>>);

static bool throws(fovea_status wanted, const char *id)
{
    try {
        fovea::device device(id);
    } catch (const fovea::error &e) {
        return e.status() == wanted && std::strstr(e.what(), id);
    }
    return false;
}

// A running sum: features and values of one channel of ones.
static bool state_counts()
{
    fovea::device first("cpu"), device = std::move(first);
    fovea_attention_options o = FOVEA_ATTENTION_OPTIONS_INIT;
    o.attention = "linear:identity";
    o.causal = 1;
    o.normalise = 0;
    o.rows = 4;
    o.heads = o.head_dim = o.value_dim = 1;
    fovea::state state(device, o);
    float ones[4] = {1, 1, 1, 1}, out[4];
    const fovea_matrix in = {ones, 0};
    state.feed(3, {in, in, in}, {out, 0});
    const std::vector<float> saved = state.save();
    state.step({in, in, in}, {out, 0});
    state.reset();
    state.restore(saved);
    state.step({in, in, in}, {out + 1, 0});
    fovea::operation operation(device, o);
    float whole[4];
    operation.run({in, in, in}, {whole, 0});
    return saved.size() == 1 && saved[0] == 3 && out[0] == 4 && out[1] == 4 && whole[3] == 4;
}

// Three by two patches after a class token, and a stage of a pyramid.
static bool features_lie_on_a_grid()
{
    fovea::device device("cpu");
    const fovea::model vit("synthetic:vit-ti16"), pyramid("synthetic:mavit-t");
    const char *const names[] = {"last_hidden_state"}, *const stages[] = {"stage2"};
    fovea_plan_options o = FOVEA_PLAN_OPTIONS_INIT;
    o.frame.width = 48;
    o.frame.height = 32;
    o.outputs = names;
    o.n_outputs = 1;
    o.dry = 1;
    const fovea::plan plan(vit, device, o);
    o.outputs = stages;
    const fovea::plan stage(pyramid, device, o);
    fovea_accuracy_report accuracy = FOVEA_ACCURACY_REPORT_INIT;
    if (vit.try_tune_accuracy(accuracy, device, o, {}, 0.9) != FOVEA_EINVAL || accuracy.found)
        return false;
    return !std::strcmp(vit.outputs().at(1), "last_hidden_state") && plan.output(0).stride == 16 &&
           plan.offset(0, 2, 1) == std::size_t{1 + 3 + 2} * vit.info().width &&
           stage.output(0).stride == 8 && stage.output(0).grid_width == 6 &&
           stage.offset(0, 5, 0) == std::size_t{5} * stage.output(0).columns;
}

// An external image in the caller's memory gives what the frame gives.
static bool external_images_are_frames()
{
    fovea::device device("cpu");
    const fovea::model vit("synthetic:vit-ti16");
    fovea_plan_options o = FOVEA_PLAN_OPTIONS_INIT;
    o.frame.width = o.frame.height = 32;
    fovea::plan plan(vit, device, o);
    std::vector<unsigned char> pixels(32 * 40 * 3);
    for (std::size_t i = 0; i < pixels.size(); i++)
        pixels[i] = static_cast<unsigned char>(i * i / 7);
    fovea_external_image_options p = FOVEA_EXTERNAL_IMAGE_OPTIONS_INIT;
    p.kind = FOVEA_EXTERNAL_HOST;
    p.width = p.height = 32;
    p.plane[0].memory = pixels.data();
    p.plane[0].stride = 40 * 3;
    std::vector<float> want = plan.buffer(0), got = plan.buffer(0);
    fovea_frame frame = {};
    frame.pixels[0] = pixels.data();
    frame.stride[0] = 40 * 3;
    plan.run(frame, {want});
    {
        fovea::external_image image(device, p);
        plan.run(image, {got});
        if (image.info().transfer != FOVEA_TRANSFER_NONE)
            return false;
    }
    p.kind = FOVEA_EXTERNAL_CUDA;
    auto none = fovea::external_image::open(device, p);
    return want == got && !none && none.status() == FOVEA_ENOTSUP;
}

// A model without weights is refused, by exception and by status.
static bool models_lie_in_memory()
{
    const fovea_model_file config = {"config.json", "{}", 2, 0, 0};
    fovea_model_source source = FOVEA_MODEL_SOURCE_INIT;
    source.name = "here";
    source.files = &config;
    source.n_files = 1;
    auto none = fovea::model::load(source);
    bool thrown = false;
    try {
        const fovea::model model(source);
    } catch (const fovea::error &e) {
        thrown = e.status() == FOVEA_EIO;
    }
    return thrown && !none && std::strstr(fovea_error(), "here contains neither model.safetensors");
}

// A model without boxes is refused and returns none.
static bool boxes_are_asked_for()
{
    fovea::device device("cpu");
    const fovea::model vit("synthetic:vit-ti16");
    fovea_plan_options o = FOVEA_PLAN_OPTIONS_INIT;
    o.frame.width = o.frame.height = 32;
    o.dry = 1;
    fovea::plan plan(vit, device, o);
    std::vector<float> out = plan.buffer(0);
    std::vector<fovea_detection> boxes(3);
    return vit.info().boxes == 0 && plan.info().scale_x == 1 && plan.info().left == 0 &&
           plan.try_detections({out}, boxes) == FOVEA_ENOTSUP && boxes.empty();
}

// Computes results from outputs made by the test: points of heat maps, and depth in millimetres.
static bool results_are_made()
{
    fovea::device device("cpu");
    fovea_plan_options o = FOVEA_PLAN_OPTIONS_INIT;
    o.frame.width = o.frame.height = 64;
    o.dry = 1;
    const fovea::model pose("synthetic:vitpose-s"), depth("synthetic:depth-anything-s");
    fovea::plan heat(pose, device, o), far(depth, device, o);
    std::vector<float> maps = heat.buffer(0), metres = far.buffer(0);
    std::vector<fovea_keypoint> points(pose.info().keypoints);
    std::vector<std::uint16_t> steps(64 * 64), classes(64 * 64), none;
    std::vector<fovea_mask> masks(2);
    std::vector<std::uint8_t> inside(64 * 64);
    metres.assign(metres.size(), 1.5f);
    const fovea_mask_options usual = FOVEA_MASK_OPTIONS_INIT;
    return heat.output(0).kind == FOVEA_OUTPUT_KEYPOINTS &&
           heat.try_keypoints({maps}, points) == FOVEA_OK && points.size() == 17 &&
           far.try_depth_map({metres}, FOVEA_EXTENT_FRAME, 1e-3, steps) == FOVEA_OK &&
           steps[100] == 1500 &&
           far.try_depth_map({metres}, FOVEA_EXTENT_PICTURE, metres) == FOVEA_EINVAL &&
           far.try_class_map({metres}, FOVEA_EXTENT_FRAME, classes) == FOVEA_EINVAL &&
           far.try_masks({metres}, usual, masks, none) == FOVEA_EINVAL && masks.empty() &&
           far.try_mask_pixels({metres}, 0, inside) == FOVEA_EINVAL;
}

// One thread puts many frames and another takes some of them, each once and in order. The last
// frame is never lost, even if some frames expire.
static bool frames_change_hands()
{
    constexpr int MANY = 20000;
    fovea::mailbox<std::vector<int>> box;
    std::thread camera([&box] {
        for (int i = 1; i <= MANY; i++)
            box.put({i, -i}, i % 3 == 1 ? 1e-6 : 0);
        box.end();
    });
    int last = 0, taken = 0;
    bool good = true;
    while (const std::optional<std::vector<int>> frame = box.take(30)) {
        good = good && frame->size() == 2 && (*frame)[0] > last && (*frame)[1] == -(*frame)[0];
        last = (*frame)[0];
        taken++;
    }
    camera.join();
    const fovea_mailbox_info info = box.info();
    return good && last == MANY && info.put == MANY && info.taken == std::uint64_t(taken) &&
           info.taken + info.replaced + info.expired == MANY;
}

// Uses a preprocessing for another size, and shows the picture that the model sees.
static bool pictures_are_preprocessed()
{
    fovea::device device("cpu");
    const fovea::model vit("synthetic:vit-ti16");
    const fovea_preprocess own = vit.preprocess(), wide = vit.preprocess(64, 48);
    fovea_plan_options o = FOVEA_PLAN_OPTIONS_INIT;
    o.frame.width = 300;
    o.frame.height = 200;
    o.preprocess = &own;
    o.dry = 1;
    const fovea_plan_info plan = fovea::plan(vit, device, o).info();
    o.preprocess = &wide;
    const fovea_plan_info other = fovea::plan(vit, device, o).info();
    const std::vector<std::uint8_t> grey(std::size_t{300} * 200 * 3, 77);
    const std::vector<std::uint8_t> seen = vit.preprocess(grey.data(), 300, 200, plan);
    std::vector<std::uint8_t> none;
    fovea_preprocess rule = FOVEA_PREPROCESS_INIT;
    return other.width == 64 && other.height == 48 &&
           seen == std::vector<std::uint8_t>(std::size_t{3} * plan.width * plan.height, 77) &&
           vit.try_preprocess(none, grey.data(), 300, 200, other) == FOVEA_EINVAL &&
           vit.try_preprocess(rule, 64, 48) == FOVEA_OK && rule.resize_width == wide.resize_width;
}

// A plan reports the products that were requested, and an operation uses them.
static bool products_are_chosen()
{
    fovea::device device("cpu");
    const fovea::model vit("synthetic:vit-ti16");
    fovea_plan_options o = FOVEA_PLAN_OPTIONS_INIT;
    o.frame.width = o.frame.height = 32;
    o.compute = FOVEA_COMPUTE_BF16;
    o.weights = FOVEA_DTYPE_I8;
    o.dry = 1;
    const fovea::plan plan(vit, device, o);
    const float weight[2] = {1.00390625f, 3}; // the first is halfway between two bfloat16 values
    fovea_gemm_options g = FOVEA_GEMM_OPTIONS_INIT;
    g.rows = g.in = 1;
    g.out = 2;
    g.weight = weight;
    g.compute = FOVEA_COMPUTE_BF16;
    fovea::operation product(device, g);
    float one = 1, out[2] = {0, 0};
    product.run({{&one, 0}}, {out, 0});
    return plan.info().compute == FOVEA_COMPUTE_BF16 && out[0] == 1 && out[1] == 3;
}

// A memory resource that counts the bytes lent and limits them.
class lender : public std::pmr::memory_resource
{
  public:
    std::atomic<std::size_t> lent{0};
    std::size_t most = SIZE_MAX;

  private:
    void *do_allocate(std::size_t size, std::size_t align) override
    {
        if (size > most - lent)
            throw std::bad_alloc();
        lent += size;
        return std::pmr::new_delete_resource()->allocate(size, align);
    }
    void do_deallocate(void *data, std::size_t size, std::size_t align) override
    {
        lent -= size;
        std::pmr::new_delete_resource()->deallocate(data, size, align);
    }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override
    {
        return this == &other;
    }
};

// All of the library's memory comes from the resource and is returned; an exhausted resource gives
// an error status.
static bool memory_is_lent()
{
    lender resource;
    fovea_memory memory = FOVEA_MEMORY_INIT;
    bool counted = false, refused = false;
    fovea::set_memory_resource(&resource);
    {
        const fovea::model vit("synthetic:vit-ti16");
        (void)fovea_memory_query(&memory);
        counted = memory.current > 0 && resource.lent >= memory.current;
        resource.most = resource.lent;
        try {
            fovea::device device("cpu");
        } catch (const fovea::error &e) {
            refused = e.status() == FOVEA_ENOMEM;
        }
        fovea::set_memory_resource(nullptr); // before all memory was returned
    }
    const bool returned = resource.lent == 0;
    const fovea::model own("synthetic:vit-ti16");
    return counted && refused && returned && resource.lent == 0;
}

int main()
{
    fovea_plan_options plan = FOVEA_PLAN_OPTIONS_INIT;
    fovea_device_options device = FOVEA_DEVICE_OPTIONS_INIT;
    fovea_attention_options attention = FOVEA_ATTENTION_OPTIONS_INIT;
    fovea_tune_report report = FOVEA_TUNE_REPORT_INIT;
    const bool results[] = {
        !std::strcmp(fovea_version(), FOVEA_VERSION),
        plan.struct_size == sizeof plan && device.struct_size == sizeof device &&
            attention.struct_size == sizeof attention && attention.eps > 0 && attention.rows == 0 &&
            report.struct_size == sizeof report && report.facts == 0,
        throws(FOVEA_ENODEV, "nonsense"),
        state_counts(),
        features_lie_on_a_grid(),
        external_images_are_frames(),
        models_lie_in_memory(),
        boxes_are_asked_for(),
        results_are_made(),
        frames_change_hands(),
        pictures_are_preprocessed(),
        products_are_chosen(),
        memory_is_lent(),
    };
    int passed = 0, all = 0;
    for (const bool good : results) {
        passed += good;
        all++;
        if (!good)
            std::printf("FAIL check %d\n", all);
    }
    std::printf("%d passed, %d failed, 0 skipped\n", passed, all - passed);
    return passed != all;
}
