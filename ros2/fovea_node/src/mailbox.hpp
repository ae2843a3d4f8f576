/* mailbox.hpp: the newest frame between the executor, whose threads put, and the worker. */
#ifndef FOVEA_ROS_MAILBOX_HPP
#define FOVEA_ROS_MAILBOX_HPP

#include <atomic>
#include <cstdint>
#include <mutex>

#include <fovea/fovea.hpp>
#include <sensor_msgs/msg/image.hpp>

namespace fovea_ros
{

/* A fovea::mailbox that shares images, and may be closed while others put. */
class Mailbox
{
  public:
    using Image = sensor_msgs::msg::Image::ConstSharedPtr;
    void put(const Image &image);
    /* Waits for a frame; nothing once the mailbox is closed. */
    Image take();
    void close();
    /* Frames that newer ones took the place of. */
    std::uint64_t dropped() const;

  private:
    std::mutex putting_;
    std::atomic<bool> closed_{false};
    fovea::mailbox<Image> frames_;
};

} // namespace fovea_ros

#endif
