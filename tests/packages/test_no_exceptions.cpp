// test_no_exceptions.cpp: fovea.hpp in a program built with -fno-exceptions -fno-rtti.
#include <fovea/fovea.hpp>

#include <cstdio>
#include <cstring>
#include <memory>
#include <memory_resource>
#include <utility>

#if defined(__cpp_exceptions) || defined(__cpp_rtti)
#error "to be built with -fno-exceptions -fno-rtti"
#endif

static bool says_why(fovea_status wanted, const char *id)
{
    const auto device = fovea::device::open(id);
    return !device && device.status() == wanted && std::strstr(fovea_error(), id);
}

// Objects are owned and can be moved.
static bool runs()
{
    auto device = fovea::device::open("cpu");
    auto model = fovea::model::load("synthetic:vit-ti16");
    if (!device || !model || device.status() != FOVEA_OK)
        return false;
    fovea_plan_options options = FOVEA_PLAN_OPTIONS_INIT;
    options.frame.width = 48;
    options.frame.height = 32;
    auto made = fovea::plan::create(*model, *device, options);
    if (!made)
        return false;
    fovea::plan plan = std::move(*made);
    const std::vector<unsigned char> pixels(std::size_t{3} * 48 * 32, 100);
    std::vector<float> logits = plan.buffer(0), few(1);
    return plan.try_run({{pixels.data()}, {0}}, {logits}) == FOVEA_OK && logits[0] != 0 &&
           plan.try_run({{pixels.data()}, {0}}, {few}) == FOVEA_EINVAL &&
           plan.try_run({{nullptr}, {0}}, {logits}) == FOVEA_EINVAL;
}

// A running sum: features and values of one channel of ones.
static bool counts()
{
    auto device = fovea::device::open("cpu");
    if (!device)
        return false;
    fovea_attention_options o = FOVEA_ATTENTION_OPTIONS_INIT;
    o.attention = "linear:identity";
    o.causal = 1;
    o.normalise = 0;
    o.rows = 4;
    o.heads = o.head_dim = o.value_dim = 1;
    auto state = fovea::state::create(*device, o);
    auto operation = fovea::operation::create(*device, o);
    float ones[4] = {1, 1, 1, 1}, out[4], whole[4];
    const fovea_matrix in = {ones, 0};
    return state && operation && state->try_feed(3, {in, in, in}, {out, 0}) == FOVEA_OK &&
           state->try_step({in, in, in}, {out, 0}) == FOVEA_OK && out[0] == 4 &&
           operation->try_run({in, in, in}, {whole, 0}) == FOVEA_OK && whole[3] == 4 &&
           state->try_feed(9, {in, in, in}, {out, 0}) == FOVEA_EINVAL;
}

// Takes the newer of two frames.
static bool takes_newest()
{
    auto mailbox = fovea::borrowing_mailbox<int>::create();
    int frames[2] = {1, 2}, *taken = nullptr;
    return mailbox && mailbox->try_take(taken, 0) == FOVEA_ETIMEOUT &&
           mailbox->try_put(frames[0]) == FOVEA_OK && mailbox->try_put(frames[1]) == FOVEA_OK &&
           mailbox->try_take(taken) == FOVEA_OK && taken == &frames[1] &&
           mailbox->info().replaced == 1;
}

// A frame type that counts its live objects and can only be moved.
class counted
{
  public:
    counted(int &lives, int number) : lives_(&lives), number(number)
    {
        ++*lives_;
    }
    counted(counted &&other) noexcept : lives_(other.lives_), number(other.number)
    {
        ++*lives_;
        other.number = -1;
    }
    counted &operator=(counted &&other) noexcept
    {
        number = other.number;
        other.number = -1;
        return *this;
    }
    ~counted()
    {
        --*lives_;
    }

  private:
    int *lives_;

  public:
    int number;
};

// Takes the newer of two frames; the other one is destroyed at once. A frame that nobody takes is
// destroyed with the mailbox. A refused frame still belongs to the caller.
static bool owns_frames()
{
    int lives = 0;
    bool good = false;
    {
        auto made = fovea::mailbox<counted>::create();
        if (!made)
            return false;
        fovea::mailbox<counted> box = std::move(*made);
        std::optional<counted> taken;
        const auto put = [&](int number, double deadline) {
            counted frame(lives, number);
            const fovea_status status = box.try_put(std::move(frame), deadline);
            return status != FOVEA_OK && frame.number != number ? FOVEA_EFORMAT : status;
        };
        for (int i = 0; i < 4; i++)
            if (put(i, 0) != FOVEA_OK || lives != 1)
                return false;
        good = box.try_take(taken) == FOVEA_OK && taken && taken->number == 3 && lives == 1;
        good = good && box.try_take(taken, 0) == FOVEA_ETIMEOUT && !taken && lives == 0;
        good = good && put(8, -1) == FOVEA_EINVAL && lives == 0 && box.info().replaced == 3;
        good = good && put(9, 0) == FOVEA_OK && lives == 1;
        box.end();
        good = good && put(10, 0) == FOVEA_EINVAL && lives == 1;
    }
    return good && lives == 0;
}

// A copied frame stays with the caller. Owning pointers move through the mailbox.
static bool copies_and_moves_frames()
{
    auto texts = fovea::mailbox<std::vector<int>>::create();
    auto pointers = fovea::mailbox<std::unique_ptr<int>>::create();
    const std::vector<int> text = {1, 2, 3};
    std::optional<std::vector<int>> copy;
    std::optional<std::unique_ptr<int>> pointer;
    if (!texts || !pointers || texts->try_put(text) != FOVEA_OK ||
        pointers->try_put(std::make_unique<int>(7)) != FOVEA_OK)
        return false;
    texts->end();
    return texts->try_take(copy) == FOVEA_OK && copy == text && texts->try_take(copy) == FOVEA_OK &&
           !copy && pointers->try_take(pointer) == FOVEA_OK && **pointer == 7;
}

// Planes of Y, U and V, resized for the model, give the result of NV12 with the same bytes.
static bool converts()
{
    auto device = fovea::device::open("cpu");
    auto model = fovea::model::load("synthetic:vit-ti16");
    if (!device || !model)
        return false;
    fovea::converter planes;
    fovea_preprocess rule = model->preprocess();
    if (!(rule.std[0] > 0) || planes.try_open(FOVEA_LAYOUT_I420, 48, 32, FOVEA_YUV_709) ||
        planes.info().format != FOVEA_FORMAT_NV12)
        return false;
    fovea_plan_options options = FOVEA_PLAN_OPTIONS_INIT;
    options.frame.format = planes.info().format;
    options.frame.width = 48;
    options.frame.height = 32;
    options.yuv = FOVEA_YUV_709;
    options.preprocess = &rule;
    auto plan = fovea::plan::create(*model, *device, options);
    if (!plan)
        return false;
    const std::vector<unsigned char> y(std::size_t{48} * 32, 100), u(24 * 16, 60), v(24 * 16, 200);
    std::vector<unsigned char> pairs;
    for (int i = 0; i < 24 * 16; i++)
        pairs.insert(pairs.end(), {60, 200});
    fovea_frame frame = {};
    std::vector<float> got = plan->buffer(0), want = got;
    return planes.try_convert(frame, {{y.data(), u.data(), v.data()}, {0}}) == FOVEA_OK &&
           frame.pixels[0] == y.data() && plan->try_run(frame, {got}) == FOVEA_OK &&
           plan->try_run({{y.data(), pairs.data()}, {0}}, {want}) == FOVEA_OK && got == want &&
           planes.try_convert(frame, {}) == FOVEA_EINVAL;
}

// Uses a memory pool of the caller, which is empty at the end.
static bool runs_in_a_pool()
{
    std::pmr::synchronized_pool_resource pool;
    const bool set = fovea::try_set_memory_resource(&pool) == FOVEA_OK, ran = set && runs();
    return fovea::try_set_memory_resource(nullptr) == FOVEA_OK && ran;
}

int main()
{
    const bool results[] = {
        says_why(FOVEA_ENODEV, "nonsense"), runs(),        counts(),   takes_newest(),
        copies_and_moves_frames(),          owns_frames(), converts(), runs_in_a_pool()};
    int passed = 0, all = 0;
    for (const bool good : results) {
        passed += good;
        all++;
        if (!good)
            std::printf("FAIL check %d: %s\n", all, fovea_error());
    }
    std::printf("%d passed, %d failed, 0 skipped\n", passed, all - passed);
    return passed != all;
}
