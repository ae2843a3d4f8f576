/* node.hpp: a component that runs a model on the frames of `image`. */
#ifndef FOVEA_ROS_NODE_HPP
#define FOVEA_ROS_NODE_HPP

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <fovea/fovea.hpp>
#include <fovea_msgs/msg/features.hpp>
#include <image_transport/image_transport.hpp>
#include <rclcpp/rclcpp.hpp>
#include <sensor_msgs/msg/image.hpp>

namespace fovea_ros
{

/* Publishes every output of a frame on `~/features`, with the frame's header. The executor only
 * puts frames in a mailbox of one: a frame that comes while another waits takes its place. The
 * constructor throws rclcpp::exceptions::InvalidParameterValueException for what cannot be. */
class Node : public rclcpp::Node
{
  public:
    explicit Node(const rclcpp::NodeOptions &options);
    ~Node() override;

  private:
    using Image = sensor_msgs::msg::Image;
    void put(const Image::ConstSharedPtr &image);
    void work();
    void make_plan(const Image &image, fovea_format format);
    void run(const Image &image);

    std::string attention_, output_, compute_;
    std::unique_ptr<fovea::device> device_;
    std::unique_ptr<fovea::model> model_;
    rclcpp::Publisher<fovea_msgs::msg::Features>::SharedPtr features_;
    image_transport::Subscriber images_;

    /* of the worker */
    std::unique_ptr<fovea::plan> plan_;
    std::uint32_t width_ = 0, height_ = 0;
    fovea_format format_ = FOVEA_FORMAT_RGB8;

    std::mutex lock_;
    std::condition_variable came_;
    Image::ConstSharedPtr next_; /* under lock_, and so are the others */
    std::uint64_t dropped_ = 0;
    bool done_ = false;
    std::thread worker_;
};

} // namespace fovea_ros

#endif
