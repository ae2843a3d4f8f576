/* probe.cpp: sends one frame to the component, and prints what it publishes.
 *
 *     probe ENCODING WIDTH HEIGHT STEP [NAME=VALUE].. < pixels
 *
 * A line of JSON for each message: {"topic": .., "type": .., and its fields}, until nothing more
 * comes. Parameters are numbers where they look so. */
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <mutex>
#include <sstream>
#include <thread>

#include <fovea_msgs/msg/features.hpp>
#include <fovea_msgs/msg/key_points.hpp>
#include <sensor_msgs/msg/image.hpp>
#include <vision_msgs/msg/classification.hpp>
#include <vision_msgs/msg/detection2_d_array.hpp>

#include "fovea_ros/node.hpp"

using sensor_msgs::msg::Image;
using namespace std::chrono_literals;

/* ---- JSON ---- */

static std::string json(const std::string &text)
{
    std::string out = "\"";
    for (const char c : text)
        out += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    return out + "\"";
}

static std::string json(double number)
{
    std::ostringstream out;
    out.precision(17);
    out << number;
    return std::isfinite(number) ? out.str() : "null";
}

template <typename Item, typename Show>
static std::string list(const std::vector<Item> &items, const Show &show)
{
    std::string out = "[";
    for (const Item &item : items)
        out += (out.size() > 1 ? ", " : "") + show(item);
    return out + "]";
}

static std::string fields(const fovea_msgs::msg::Features &m)
{
    const auto number = [](float value) { return json(double{value}); };
    return "\"name\": " + json(m.name) + ", \"rows\": " + json(m.rows) +
           ", \"columns\": " + json(m.columns) + ", \"data\": " + list(m.data, number);
}

static std::string fields(const fovea_msgs::msg::KeyPoints &m)
{
    return "\"points\": " + list(m.points, [](const fovea_msgs::msg::KeyPoint &p) {
               return "{\"name\": " + json(p.name) + ", \"x\": " + json(double{p.x}) +
                      ", \"y\": " + json(double{p.y}) + ", \"score\": " + json(double{p.score}) +
                      "}";
           });
}

static std::string fields(const Image &m)
{
    const auto byte = [](std::uint8_t value) { return std::to_string(value); };
    return "\"encoding\": " + json(m.encoding) + ", \"width\": " + json(m.width) +
           ", \"height\": " + json(m.height) + ", \"step\": " + json(m.step) +
           ", \"data\": " + list(m.data, byte);
}

static std::string fields(const vision_msgs::msg::Classification &m)
{
    return "\"results\": " + list(m.results, [](const vision_msgs::msg::ObjectHypothesis &h) {
               return "{\"class\": " + json(h.class_id) + ", \"score\": " + json(h.score) + "}";
           });
}

static std::string fields(const vision_msgs::msg::Detection2DArray &m)
{
    return "\"detections\": " + list(m.detections, [](const vision_msgs::msg::Detection2D &d) {
               const auto &h = d.results.at(0).hypothesis;
               return "{\"id\": " + json(d.id) + ", \"class\": " + json(h.class_id) +
                      ", \"score\": " + json(h.score) +
                      ", \"x\": " + json(d.bbox.center.position.x) +
                      ", \"y\": " + json(d.bbox.center.position.y) +
                      ", \"width\": " + json(d.bbox.size_x) +
                      ", \"height\": " + json(d.bbox.size_y) + "}";
           });
}

/* ---- the probe ---- */

class Probe : public rclcpp::Node
{
  public:
    Probe() : rclcpp::Node("probe"), images_(create_publisher<Image>("/image", 1))
    {
        listen<fovea_msgs::msg::Features>("features");
        listen<fovea_msgs::msg::KeyPoints>("key_points");
        listen<vision_msgs::msg::Classification>("labels");
        for (const char *topic : {"depth", "classes", "masks"})
            listen<Image>(topic);
        for (const char *topic : {"boxes", "instances"})
            listen<vision_msgs::msg::Detection2DArray>(topic);
    }
    /* Publishes the image until messages arrive, and waits until no more come. */
    void run(const Image &image)
    {
        for (int i = 0; i < 1000 && images_->get_subscription_count() == 0; i++)
            std::this_thread::sleep_for(10ms);
        /* waits until the node has found the subscriptions too */
        std::this_thread::sleep_for(500ms);
        images_->publish(std::make_unique<Image>(image));
        std::size_t before = 0;
        for (int quiet = 0, i = 0; i < 600 && quiet < 5; i++) {
            std::this_thread::sleep_for(100ms);
            quiet = count() && count() == before ? quiet + 1 : 0;
            before = count();
        }
    }

  private:
    std::size_t count()
    {
        const std::lock_guard<std::mutex> hold(lock_);
        return count_;
    }
    template <typename Message> void listen(const std::string &topic)
    {
        const auto print = [this, topic](const std::shared_ptr<const Message> &m) {
            const std::lock_guard<std::mutex> hold(lock_);
            count_++;
            std::cout << "{\"topic\": " << json(topic)
                      << ", \"frame_id\": " << json(m->header.frame_id)
                      << ", \"sec\": " << m->header.stamp.sec << ", " << fields(*m) << "}"
                      << std::endl;
        };
        subscriptions_.push_back(create_subscription<Message>("/fovea/" + topic, 5, print));
    }
    rclcpp::Publisher<Image>::SharedPtr images_;
    std::vector<std::shared_ptr<void>> subscriptions_;
    std::mutex lock_;
    std::size_t count_ = 0;
};

static void set(rclcpp::NodeOptions &options, const std::string &name, const std::string &value)
{
    char *end;
    const double number = std::strtod(value.c_str(), &end);
    if (value.empty() || *end || name == "size" || name == "yuv")
        options.append_parameter_override(name, value);
    else if (value.find('.') == std::string::npos)
        options.append_parameter_override(name, static_cast<std::int64_t>(number));
    else
        options.append_parameter_override(name, number);
}

int main(int count, char **arguments)
{
    if (count < 5)
        return 2;
    rclcpp::init(0, nullptr);
    rclcpp::NodeOptions options;
    options.use_intra_process_comms(true);
    for (int i = 5; i < count; i++) {
        const std::string one = arguments[i];
        set(options, one.substr(0, one.find('=')), one.substr(one.find('=') + 1));
    }
    Image image;
    image.header.stamp.sec = 42;
    image.header.frame_id = "camera";
    image.encoding = arguments[1];
    image.width = static_cast<std::uint32_t>(std::atoi(arguments[2]));
    image.height = static_cast<std::uint32_t>(std::atoi(arguments[3]));
    image.step = static_cast<std::uint32_t>(std::atoi(arguments[4]));
    image.data.assign(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
    const auto probe = std::make_shared<Probe>();
    const auto node = std::make_shared<fovea_ros::Node>(options);
    rclcpp::executors::SingleThreadedExecutor executor;
    executor.add_node(probe);
    executor.add_node(node);
    std::thread thread([&] { executor.spin(); });
    probe->run(image);
    executor.cancel();
    thread.join();
    rclcpp::shutdown();
    return 0;
}
