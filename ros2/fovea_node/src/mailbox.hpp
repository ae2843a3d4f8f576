/* mailbox.hpp: one frame between the executor and the worker; the newest takes the place of one
 * that waits. */
#ifndef FOVEA_ROS_MAILBOX_HPP
#define FOVEA_ROS_MAILBOX_HPP

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include <sensor_msgs/msg/image.hpp>

namespace fovea_ros
{

class Mailbox
{
  public:
    using Image = sensor_msgs::msg::Image::ConstSharedPtr;
    void put(const Image &image);
    /* Waits for a frame; nothing once the mailbox is closed. */
    Image take();
    void close();
    /* Frames that were never taken. */
    std::uint64_t dropped() const;

  private:
    mutable std::mutex lock_;
    std::condition_variable changed_;
    Image image_; /* under lock_, as what follows */
    std::uint64_t dropped_ = 0;
    bool closed_ = false;
};

} // namespace fovea_ros

#endif
