/* The ROS 2 component on a stand-in of ROS 2: what it publishes is what the library gives. */
#include <fovea_ros/node.hpp>

#include <atomic>
#include <cstdlib>
#include <future>
#include <list>

using Features = fovea_msgs::msg::Features;
using sensor_msgs::msg::Image;

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            std::fprintf(stderr, "line %d: %s\n", __LINE__, #what);                                \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (0)

static const char *const MODEL = "synthetic:vit-ti16";

static std::shared_ptr<Image> picture(const char *encoding, std::uint32_t width, int stamp)
{
    auto image = std::make_shared<Image>();
    image->header = {stamp, "camera"};
    image->encoding = encoding;
    image->width = width;
    image->height = 48;
    image->step = width * 3 + 5;
    for (std::uint32_t i = 0; i < image->step * image->height; i++)
        image->data.push_back(static_cast<std::uint8_t>(i * 37 + i / 91));
    return image;
}

static void check_against_library(const Image &image, fovea_format format, const Features &got)
{
    fovea::device device("cpu");
    fovea::model model(MODEL);
    fovea_preprocess rule = FOVEA_PREPROCESS_INIT;
    fovea_plan_options options = FOVEA_PLAN_OPTIONS_INIT;
    fovea_model_preprocess(model, &rule);
    options.preprocess = &rule;
    options.frame.format = format;
    options.frame.width = image.width;
    options.frame.height = image.height;
    fovea::plan plan(model, device, options);
    std::vector<float> want = plan.buffer(0);
    fovea_frame frame = {};
    frame.pixels[0] = image.data.data();
    frame.stride[0] = image.step;
    plan.run(frame, {want});
    CHECK(got.data == want && got.name == plan.output(0).name);
    CHECK(got.header.stamp == image.header.stamp && got.header.frame_id == "camera");
}

static void check_refused(const char *name, std::any value, const char *word)
{
    rclcpp::NodeOptions options;
    options.overrides["model"] = std::string(MODEL);
    options.overrides[name] = std::move(value);
    try {
        fovea_ros::Node node(options);
    } catch (const rclcpp::exceptions::InvalidParameterValueException &error) {
        CHECK(std::string(error.what()).find(word) != std::string::npos);
        return;
    }
    CHECK(!"refused");
}

int main()
{
    rclcpp::NodeOptions options;
    options.overrides["model"] = std::string(MODEL);
    std::promise<std::unique_ptr<Features>> *result = nullptr;
    std::list<std::promise<std::unique_ptr<Features>>> results; /* outlive their setters */
    std::promise<std::string> said;
    std::atomic<int> lines{0};
    rclcpp::published<Features> = [&](auto message) { result->set_value(std::move(message)); };
    rclcpp::logged = [&](const std::string &text) {
        if (lines++ == 0)
            said.set_value(text);
    };
    fovea_ros::Node node(options);
    const struct {
        const char *encoding;
        std::uint32_t width;
        fovea_format format;
    } frames[] = {{"rgb8", 64, FOVEA_FORMAT_RGB8},
                  {"bgr8", 64, FOVEA_FORMAT_BGR8},
                  {"mono8", 64, FOVEA_FORMAT_GRAY8},
                  {"rgb8", 81, FOVEA_FORMAT_RGB8}};
    int stamp = 0;
    for (const auto &one : frames) {
        result = &results.emplace_back();
        auto future = result->get_future();
        const auto image = picture(one.encoding, one.width, ++stamp);
        image_transport::subscribed(image);
        check_against_library(*image, one.format, *future.get());
    }
    image_transport::subscribed(picture("bayer_rggb8", 64, 9));
    CHECK(said.get_future().get().find("\"bayer_rggb8\": wanted one of") != std::string::npos);

    /* While the first is being published three more come: the last alone is run. */
    std::promise<void> busy, go, last;
    std::vector<int> stamps;
    rclcpp::published<Features> = [&](auto message) {
        stamps.push_back(message->header.stamp);
        if (stamps.size() == 1) {
            busy.set_value();
            go.get_future().wait();
        } else {
            last.set_value();
        }
    };
    image_transport::subscribed(picture("rgb8", 64, 11));
    busy.get_future().wait();
    for (int i = 12; i <= 14; i++)
        image_transport::subscribed(picture("rgb8", 64, i));
    go.set_value();
    last.get_future().wait();
    CHECK(stamps == (std::vector<int>{11, 14}) && lines == 3);

    check_refused("model", std::string(), "no model");
    check_refused("model", std::string("synthetic:nothing"), "nothing");
    check_refused("device", std::string("abacus"), "abacus");
    check_refused("compute", std::string("f8"), "f8");
    check_refused("threads", std::int64_t{-1}, "threads");
    return 0;
}
