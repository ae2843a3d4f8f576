/* node.hpp: a component that runs a model on the frames of `image`. */
#ifndef FOVEA_ROS_NODE_HPP
#define FOVEA_ROS_NODE_HPP

#include <memory>

#include <rclcpp/rclcpp.hpp>

namespace fovea_ros
{

/* Publishes what the model finds in a frame, with the frame's header: see ros2/README.md. The
 * executor only puts frames into a mailbox for one frame; a thread of the node takes them from it.
 * The constructor loads the model, and throws rclcpp::exceptions::InvalidParameterValueException
 * for invalid parameters. */
class Node : public rclcpp::Node
{
  public:
    explicit Node(const rclcpp::NodeOptions &options);
    /* Waits until the current frame is done. */
    ~Node() override;

  private:
    class Worker;
    std::unique_ptr<Worker> worker_;
};

} // namespace fovea_ros

#endif
