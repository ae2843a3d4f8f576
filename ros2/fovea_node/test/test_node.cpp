/* test_node.cpp: runs the component in one process with a node that sends it frames, and tests
 * headers, encodings, changing sizes, frames faster than the model, parameters, and ending while
 * frames arrive. */
#include <cstdio>
#include <cstdlib>
#include <future>
#include <map>
#include <mutex>
#include <thread>

#include <diagnostic_msgs/msg/diagnostic_array.hpp>
#include <fovea_msgs/msg/features.hpp>
#include <sensor_msgs/msg/image.hpp>

#include "fovea_ros/node.hpp"

using diagnostic_msgs::msg::DiagnosticArray;
using fovea_msgs::msg::Features;
using sensor_msgs::msg::Image;
using namespace std::chrono_literals;

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            std::fprintf(stderr, "line %d: %s\n", __LINE__, #what);                                \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (0)

static const char *const MODEL = "synthetic:vit-ti16";

/* Sends frames, and keeps the messages that arrive. */
class Camera : public rclcpp::Node
{
  public:
    Camera()
        : rclcpp::Node("camera", rclcpp::NodeOptions().use_intra_process_comms(true)),
          publisher_(create_publisher<Image>("/image", rclcpp::SensorDataQoS())),
          features_(create_subscription<Features>(
              "/fovea/features", 50,
              [this](const std::shared_ptr<const Features> &message) { keep(message); })),
          diagnostics_(create_subscription<DiagnosticArray>(
              "/diagnostics", 50, [this](const std::shared_ptr<const DiagnosticArray> &message) {
                  const std::lock_guard<std::mutex> hold(lock_);
                  for (const auto &one : message->status[0].values)
                      values_[one.key] = one.value;
                  failure_ = message->status[0].level ? message->status[0].message : "";
              }))
    {
    }
    std::size_t listeners() const
    {
        return publisher_->get_subscription_count();
    }
    void send(std::unique_ptr<Image> image)
    {
        publisher_->publish(std::move(image));
    }
    std::vector<std::shared_ptr<const Features>> got()
    {
        const std::lock_guard<std::mutex> hold(lock_);
        return got_;
    }
    /* The frame's result. */
    std::shared_ptr<const Features> run(std::unique_ptr<Image> image)
    {
        const std::size_t before = got().size();
        send(std::move(image));
        for (int i = 0; i < 3000 && got().size() == before; i++)
            std::this_thread::sleep_for(10ms);
        CHECK(got().size() == before + 1);
        return got().back();
    }
    std::string failure()
    {
        const std::lock_guard<std::mutex> hold(lock_);
        return failure_;
    }
    std::string value(const char *key)
    {
        const std::lock_guard<std::mutex> hold(lock_);
        return values_[key];
    }

  private:
    void keep(const std::shared_ptr<const Features> &message)
    {
        const std::lock_guard<std::mutex> hold(lock_);
        got_.push_back(message);
    }
    rclcpp::Publisher<Image>::SharedPtr publisher_;
    rclcpp::Subscription<Features>::SharedPtr features_;
    rclcpp::Subscription<DiagnosticArray>::SharedPtr diagnostics_;
    std::mutex lock_;
    std::vector<std::shared_ptr<const Features>> got_;
    std::map<std::string, std::string> values_;
    std::string failure_;
};

/* Spins nodes as long as it lives. */
class Spinning
{
  public:
    explicit Spinning(const std::vector<std::shared_ptr<rclcpp::Node>> &nodes)
    {
        for (const auto &node : nodes)
            executor_.add_node(node);
        thread_ = std::thread([this] { executor_.spin(); });
    }
    ~Spinning()
    {
        executor_.cancel();
        thread_.join();
    }

  private:
    rclcpp::executors::SingleThreadedExecutor executor_;
    std::thread thread_;
};

static rclcpp::NodeOptions options(const char *output = "last_hidden_state")
{
    rclcpp::NodeOptions out;
    out.append_parameter_override("model", MODEL);
    out.append_parameter_override("output", output);
    out.append_parameter_override("threads", 1);
    out.use_intra_process_comms(true);
    return out;
}

static std::unique_ptr<Image> picture(const char *encoding, std::uint32_t width, std::uint32_t step,
                                      int stamp, std::uint32_t rows = 48)
{
    auto image = std::make_unique<Image>();
    image->header.stamp.sec = stamp;
    image->header.stamp.nanosec = 7;
    image->header.frame_id = "camera_optical";
    image->encoding = encoding;
    image->width = width;
    image->height = 48;
    image->step = step;
    for (std::uint32_t i = 0; i < step * rows; i++)
        image->data.push_back(static_cast<std::uint8_t>(i * 37 + i / 91));
    return image;
}

static void wait_for(const std::function<bool()> &what)
{
    for (int i = 0; i < 3000 && !what(); i++)
        std::this_thread::sleep_for(10ms);
    CHECK(what());
}

/* The same pixels in two encodings must give the same results. */
static void check_same(Camera &camera, std::unique_ptr<Image> a, std::unique_ptr<Image> b)
{
    const auto first = camera.run(std::move(a)), second = camera.run(std::move(b));
    CHECK(first->data == second->data);
}

static std::unique_ptr<Image> changed(const Image &image, const char *encoding, std::uint32_t step,
                                      const std::function<std::size_t(std::size_t)> &from)
{
    auto out = std::make_unique<Image>(image);
    out->encoding = encoding;
    const std::size_t rows = image.data.size() / image.step;
    out->step = step;
    out->data.assign(step * rows, 99);
    for (std::size_t y = 0; y < rows; y++)
        for (std::size_t x = 0; x < step; x++)
            if (from(x) < image.step)
                out->data[y * step + x] = image.data[y * image.step + from(x)];
    return out;
}

static void check_encodings(Camera &camera)
{
    const auto rgb = picture("rgb8", 64, 64 * 3, 1);
    const auto swapped = [](std::size_t x) { return x / 3 * 3 + 2 - x % 3; };
    check_same(camera, std::make_unique<Image>(*rgb), changed(*rgb, "bgr8", 64 * 3, swapped));
    check_same(camera, std::make_unique<Image>(*rgb),
               changed(*rgb, "rgb8", 64 * 3 + 11, [](std::size_t x) { return x; }));
    const auto four = [](std::size_t x) {
        return x < 64 * 4 && x % 4 < 3 ? x / 4 * 3 + x % 4 : std::size_t{99999};
    };
    check_same(camera, std::make_unique<Image>(*rgb), changed(*rgb, "rgba8", 64 * 4 + 6, four));
    const auto bgr = changed(*rgb, "bgr8", 64 * 3, swapped);
    check_same(camera, std::make_unique<Image>(*rgb), changed(*bgr, "bgra8", 64 * 4, four));

    const auto yuyv = picture("yuv422_yuy2", 64, 64 * 2, 2);
    const auto pairs = [](std::size_t x) { return x ^ 1; };
    check_same(camera, std::make_unique<Image>(*yuyv), changed(*yuyv, "uyvy", 64 * 2, pairs));
    check_same(camera, std::make_unique<Image>(*yuyv), changed(*yuyv, "yuv422", 64 * 2 + 4, pairs));
    const auto first = camera.run(std::make_unique<Image>(*yuyv));
    CHECK(first->data != camera.run(changed(*yuyv, "yuyv", 64 * 2, pairs))->data);

    const auto nv12 = picture("nv12", 64, 64, 3, 72);
    auto nv21 = changed(*nv12, "nv21", 80, pairs);
    for (std::size_t y = 0; y < 48; y++)
        std::copy_n(nv12->data.begin() + static_cast<std::ptrdiff_t>(y * 64), 64,
                    nv21->data.begin() + static_cast<std::ptrdiff_t>(y * 80));
    check_same(camera, std::make_unique<Image>(*nv12), std::move(nv21));
    auto gray = picture("mono8", 64, 64, 4);
    auto colour = picture("rgb8", 64, 64 * 3, 4);
    for (std::size_t i = 0; i < colour->data.size(); i++)
        colour->data[i] = gray->data[i / 3];
    auto wide = picture("mono16", 64, 64 * 2, 4); /* the same values in the upper byte */
    for (std::size_t i = 0; i < gray->data.size(); i++) {
        wide->data[2 * i] = 0;
        wide->data[2 * i + 1] = gray->data[i];
    }
    check_same(camera, std::make_unique<Image>(*gray), std::move(wide));
    check_same(camera, std::move(gray), std::move(colour));

    /* NV24 with the same U and V in every 2 x 2 pixels. */
    auto nv24 = picture("nv24", 64, 64, 3, 48 * 3);
    for (std::size_t y = 0; y < 48; y++)
        for (std::size_t x = 0; x < 64; x++) {
            nv24->data[y * 64 + x] = nv12->data[y * 64 + x];
            for (std::size_t c = 0; c < 2; c++)
                nv24->data[(48 + 2 * y) * 64 + 2 * x + c] =
                    nv12->data[(48 + y / 2) * 64 + x / 2 * 2 + c];
        }
    check_same(camera, std::make_unique<Image>(*nv12), std::move(nv24));
}

static void check_results(Camera &camera)
{
    const auto message = camera.run(picture("rgb8", 64, 64 * 3, 11));
    CHECK(message->header.stamp.sec == 11 && message->header.stamp.nanosec == 7);
    CHECK(message->header.frame_id == "camera_optical");
    CHECK(message->name == "last_hidden_state" && message->columns == 192);
    CHECK(message->rows == message->prefix + message->grid_width * message->grid_height);
    CHECK(message->data.size() == std::size_t{message->rows} * message->columns);
    /* two frames that differ only at the right edge */
    auto wider = picture("rgb8", 81, 81 * 3, 12);
    const auto wide = camera.run(std::make_unique<Image>(*wider));
    for (std::size_t y = 0; y < 48; y++)
        std::fill_n(wider->data.begin() + static_cast<std::ptrdiff_t>((y * 81 + 64) * 3), 17 * 3,
                    0);
    CHECK(camera.run(std::move(wider))->data != wide->data);
    CHECK(camera.run(picture("rgb8", 64, 64 * 3, 13))->data == message->data);
}

/* A frame that cannot be run is reported, and the node continues. */
static void check_failures(Camera &camera)
{
    const struct {
        std::unique_ptr<Image> image;
        const char *word;
    } wrong[] = {{picture("bayer_rggb8", 64, 64, 1), "\"bayer_rggb8\": it must be one of rgb8"},
                 {picture("rgb8", 64, 64, 1), "step 64 is less than the 192 bytes"},
                 {picture("rgb8", 64, 64 * 3, 1, 47), "9024 bytes, but 9216 are needed"},
                 {picture("nv12", 64, 64, 1, 71), "4544 bytes, but 4608 are needed"},
                 {picture("rgb8", 0, 64, 1), "the image is empty"}};
    for (const auto &one : wrong) {
        const std::size_t before = camera.got().size();
        wait_for([&] {
            camera.send(std::make_unique<Image>(*one.image));
            return camera.failure().find(one.word) != std::string::npos;
        });
        CHECK(camera.got().size() == before);
        camera.run(picture("rgb8", 64, 64 * 3, 2));
    }
}

/* If many frames arrive at once, the last one is run, and not all of those before it. */
static void check_newest(Camera &camera)
{
    constexpr int SENT = 200;
    const std::size_t before = camera.got().size();
    const long dropped = std::atol(camera.value("dropped for newer ones").c_str());
    /* faster than the model runs, but not faster than the executor */
    for (int i = 1; i <= SENT; i++) {
        camera.send(picture("rgb8", 64, 64 * 3, 1000 + i));
        std::this_thread::sleep_for(500us);
    }
    wait_for([&] { return camera.got().back()->header.stamp.sec == 1000 + SENT; });
    const auto got = camera.got();
    CHECK(got.size() - before < SENT);
    for (std::size_t i = before + 1; i < got.size(); i++)
        CHECK(got[i - 1]->header.stamp.sec < got[i]->header.stamp.sec);
    wait_for([&] {
        camera.run(picture("rgb8", 64, 64 * 3, 3));
        return std::atol(camera.value("dropped for newer ones").c_str()) > dropped;
    });
    CHECK(std::atof(camera.value("milliseconds of the device").c_str()) > 0);
}

static void check_parameters(fovea_ros::Node &node)
{
    CHECK(node.set_parameter(rclcpp::Parameter("score", 0.5)).successful);
    CHECK(!node.set_parameter(rclcpp::Parameter("score", 1.5)).successful);
    CHECK(node.set_parameter(rclcpp::Parameter("top_k", 3)).successful);
    CHECK(!node.set_parameter(rclcpp::Parameter("top_k", 101)).successful);
    for (const char *name : {"model", "size", "attention", "device"})
        CHECK(!node.set_parameter(rclcpp::Parameter(name, "softmax")).successful);
}

template <typename T> static void check_refused(const char *name, const T &value, const char *word)
{
    rclcpp::NodeOptions wrong;
    if (std::string(name) != "model")
        wrong.append_parameter_override("model", MODEL);
    wrong.append_parameter_override(name, value);
    std::string text;
    try {
        fovea_ros::Node node(wrong);
    } catch (const rclcpp::exceptions::InvalidParameterValueException &error) {
        text = error.what();
    }
    if (text.find(word) == std::string::npos)
        std::fprintf(stderr, "%s: \"%s\"\n", name, text.c_str());
    CHECK(text.find(word) != std::string::npos);
}

static void check_refusals()
{
    check_refused("model", "", "no model");
    check_refused("model", "synthetic:nothing", "nothing");
    check_refused("device", "abacus", "abacus");
    check_refused("compute", "f8", "f32, bf16, int8, auto");
    check_refused("size", "64x", "size \"64x\"");
    check_refused("output", "smell", "no output of that name");
    check_refused("attention", "psychic", "psychic");
    check_refused("labels", "/nowhere/at/all", "/nowhere/at/all");
    check_refused("mask_rule", "none", "panoptic, instance");
    check_refused("yuv", "2100", "2020-full, auto");
    check_refused("threads", -1, "threads");
}

/* Nodes end while frames arrive, and while one is being run. */
static void check_end(const std::shared_ptr<Camera> &camera)
{
    std::atomic<bool> over{false};
    std::thread sender([&] {
        while (!over) {
            camera->send(picture("rgb8", 64, 64 * 3, 1));
            std::this_thread::sleep_for(100us);
        }
    });
    for (int i = 0; i < 10; i++) {
        auto node = std::make_shared<fovea_ros::Node>(options());
        Spinning spinning({node});
        std::this_thread::sleep_for(std::chrono::milliseconds(7 * i));
        node.reset();
    }
    over = true;
    sender.join();
}

int main(int count, char **arguments)
{
    rclcpp::init(count, arguments);
    check_refusals();
    const auto camera = std::make_shared<Camera>();
    Spinning spinning({camera});
    {
        const auto node = std::make_shared<fovea_ros::Node>(options());
        Spinning other({node});
        wait_for([&] { return camera->listeners() == 1; });
        check_results(*camera);
        check_encodings(*camera);
        check_failures(*camera);
        check_newest(*camera);
        check_parameters(*node);
    }
    check_end(camera);
    rclcpp::shutdown();
    std::puts("passed");
    return 0;
}
