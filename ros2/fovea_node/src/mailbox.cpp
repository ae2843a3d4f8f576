#include "mailbox.hpp"

#include <optional>

namespace fovea_ros
{

void Mailbox::put(const Image &image)
{
    const std::lock_guard<std::mutex> hold(putting_);
    (void)frames_.try_put(image); /* or the mailbox is closed */
}

Mailbox::Image Mailbox::take()
{
    const std::optional<Image> taken = frames_.take();
    return taken && !closed_ ? *taken : nullptr;
}

void Mailbox::close()
{
    const std::lock_guard<std::mutex> hold(putting_);
    closed_ = true;
    frames_.end();
}

std::uint64_t Mailbox::dropped() const
{
    return frames_.info().replaced;
}

} // namespace fovea_ros
