// pipeline.cpp: measures by features how much a scene changes from frame to frame.
//
//   c++ -std=c++17 pipeline.cpp -o pipeline $(pkg-config --cflags --libs fovea) -pthread
//   ./pipeline [MODEL [SECONDS [ATTENTION]]]
//
// A producer, which here draws pictures, supplies RGB frames at a fixed rate. The consumer takes
// the newest frame; older ones are dropped. The loop allocates nothing: the threads exchange four
// frames.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <vector>

#include <fovea/fovea.hpp>

using steady = std::chrono::steady_clock;
using std::chrono::duration;

constexpr std::uint32_t WIDTH = 320, HEIGHT = 240;
constexpr double RATE = 30; // frames per second

struct frame {
    std::vector<std::uint8_t> rgb = std::vector<std::uint8_t>(std::size_t{3} * WIDTH * HEIGHT);
    steady::time_point taken;
    std::atomic<bool> free{true};
};

static void give_back(void *, void *dropped)
{
    static_cast<frame *>(dropped)->free = true;
}

// Draws a disc that changes its position once a second.
static void draw(frame &f, unsigned number)
{
    const int centre = 60 + int(number / unsigned(RATE) % 3) * 100;
    std::uint8_t *p = f.rgb.data();
    for (int y = 0; y < int(HEIGHT); y++)
        for (int x = 0; x < int(WIDTH); x++, p += 3) {
            const bool inside = (x - centre) * (x - centre) + (y - 120) * (y - 120) < 2500;
            p[0] = inside ? 220 : std::uint8_t(x / 2);
            p[1] = inside ? 90 : std::uint8_t(y / 2);
            p[2] = 60;
        }
}

// Supplies frames from its construction until its destruction.
class producer
{
  public:
    explicit producer(fovea::borrowing_mailbox<frame> &to) : thread_([this, &to] { run(to); })
    {
    }
    ~producer()
    {
        stop_ = true;
        thread_.join();
    }

  private:
    void run(fovea::borrowing_mailbox<frame> &to)
    {
        auto next = steady::now();
        for (unsigned number = 0; !stop_; number++) {
            // One frame is being filled, one waits, one is in use by the model. The fourth is free.
            frame &f = *std::find_if(frames_.begin(), frames_.end(),
                                     [](frame &one) { return one.free.exchange(false); });
            draw(f, number);
            next += std::chrono::duration_cast<steady::duration>(duration<double>(1 / RATE));
            std::this_thread::sleep_until(next);
            f.taken = steady::now();
            to.try_put(f, 1 / RATE);
        }
    }
    std::array<frame, 4> frames_;
    std::atomic<bool> stop_{false};
    std::thread thread_; // declared last: the thread starts when all other members exist
};

static double cosine(const std::vector<float> &a, const std::vector<float> &b)
{
    double ab = 0, aa = 0, bb = 0;
    for (std::size_t i = 0; i < a.size(); i++) {
        ab += double(a[i]) * b[i];
        aa += double(a[i]) * a[i];
        bb += double(b[i]) * b[i];
    }
    return ab / std::sqrt(aa * bb + 1e-30);
}

class statistics
{
  public:
    statistics()
    {
        latency_.reserve(1 << 17);
    }
    void add(double latency)
    {
        if (latency_.size() < latency_.capacity())
            latency_.push_back(latency);
    }
    void print(double seconds, const fovea_mailbox_info &frames)
    {
        std::sort(latency_.begin(), latency_.end());
        const auto at = [this](double part) {
            return 1e3 * latency_[std::size_t(part * double(latency_.size() - 1))];
        };
        std::printf("%.1f frames/s; latency p50 %.1f ms, p95 %.1f, p99 %.1f; %u dropped; %u later "
                    "than %.1f ms\n",
                    double(latency_.size()) / seconds, at(0.5), at(0.95), at(0.99),
                    unsigned(frames.replaced + frames.expired), unsigned(frames.late), 1e3 / RATE);
    }
    bool empty() const
    {
        return latency_.empty();
    }

  private:
    std::vector<double> latency_;
};

int main(int argc, char **argv)
try {
    const std::string_view first = argc > 1 ? argv[1] : "";
    if (first == "--help" || first == "-h")
        return std::puts("usage: pipeline [MODEL [SECONDS [ATTENTION]]]") < 0;
    const duration<double> seconds(argc > 2 ? std::atof(argv[2]) : 5);
    fovea::device device("cpu");
    fovea::model model(argc > 1 ? argv[1] : "synthetic:vit-ti16");
    const char *const wanted[] = {"last_hidden_state"};
    fovea_plan_options options = FOVEA_PLAN_OPTIONS_INIT;
    options.frame.width = WIDTH;
    options.frame.height = HEIGHT;
    options.attention = argc > 3 ? argv[3] : "linear";
    options.outputs = wanted;
    options.n_outputs = 1;
    fovea::plan plan(model, device, options);
    std::vector<float> features = plan.buffer(0), before = features;

    fovea_mailbox_options frames = FOVEA_MAILBOX_OPTIONS_INIT;
    frames.drop = give_back;
    statistics latencies;
    fovea::borrowing_mailbox<frame> mailbox(&frames);
    const producer camera(mailbox);
    const auto begin = steady::now();
    unsigned jumps = 0;
    while (steady::now() - begin < seconds) {
        frame *f;
        fovea_ticket ticket;
        if (mailbox.try_take(f, 10) != FOVEA_OK)
            break;
        fovea::check(plan.try_submit(ticket, {{f->rgb.data()}, {0}}, {features}));
        if (mailbox.try_wait(plan, ticket) != FOVEA_OK) // the frame is late, and is counted
            fovea::check(plan.try_wait(ticket));
        jumps += !latencies.empty() && cosine(features, before) < 0.999;
        std::swap(features, before);
        latencies.add(duration<double>(steady::now() - f->taken).count());
        f->free = true;
    }
    const duration<double> took = steady::now() - begin;
    if (latencies.empty())
        return std::fprintf(stderr, "no frame came\n"), 1;
    latencies.print(took.count(), mailbox.info());
    std::printf("the scene changed %u times\n", jumps);
    return 0;
} catch (const std::exception &e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
}
