#include "mailbox.hpp"

#include <utility>

namespace fovea_ros
{

void Mailbox::put(const Image &image)
{
    Image before; /* is let go without the lock */
    {
        const std::lock_guard<std::mutex> hold(lock_);
        if (closed_)
            return;
        before = std::exchange(image_, image);
        dropped_ += before != nullptr;
    }
    changed_.notify_one();
}

Mailbox::Image Mailbox::take()
{
    std::unique_lock<std::mutex> hold(lock_);
    changed_.wait(hold, [this] { return closed_ || image_; });
    return std::exchange(image_, nullptr);
}

void Mailbox::close()
{
    Image before;
    {
        const std::lock_guard<std::mutex> hold(lock_);
        closed_ = true;
        before = std::exchange(image_, nullptr);
    }
    changed_.notify_all();
}

std::uint64_t Mailbox::dropped() const
{
    const std::lock_guard<std::mutex> hold(lock_);
    return dropped_;
}

} // namespace fovea_ros
