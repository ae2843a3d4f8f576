/* mailbox.hpp: passes the newest frame from the executor's threads to the worker. */
#ifndef FOVEA_ROS_MAILBOX_HPP
#define FOVEA_ROS_MAILBOX_HPP

#include <atomic>
#include <cstdint>
#include <mutex>

#include <fovea/fovea.hpp>
#include <sensor_msgs/msg/image.hpp>

namespace fovea_ros
{

/* Like fovea::mailbox, but shares images, and can be closed while other threads put images. */
class Mailbox
{
  public:
    using Image = sensor_msgs::msg::Image::ConstSharedPtr;
    void put(const Image &image);
    /* Waits for a frame; nothing once the mailbox is closed. */
    Image take();
    void close();
    /* How many frames were replaced by newer ones before they were run. */
    std::uint64_t dropped() const;

  private:
    std::mutex putting_;
    std::atomic<bool> closed_{false};
    fovea::mailbox<Image> frames_;
};

} // namespace fovea_ros

#endif
