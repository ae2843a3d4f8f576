/* node.hpp: a component that runs a model on the frames of `image`. */
#ifndef FOVEA_ROS_NODE_HPP
#define FOVEA_ROS_NODE_HPP

#include <memory>

#include <rclcpp/rclcpp.hpp>

namespace fovea_ros
{

/* Publishes what the model finds in a frame, with the frame's header: see ros2/README.md. The
 * executor only puts frames into a mailbox of one, which a thread of the node's own empties. The
 * constructor loads the model, and throws rclcpp::exceptions::InvalidParameterValueException for
 * parameters that cannot be. */
class Node : public rclcpp::Node
{
  public:
    explicit Node(const rclcpp::NodeOptions &options);
    /* Waits for the frame that is being run. */
    ~Node() override;

  private:
    class Worker;
    std::unique_ptr<Worker> worker_;
};

} // namespace fovea_ros

#endif
