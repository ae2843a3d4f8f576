#include "mailbox.hpp"

#include <memory>

namespace fovea_ros
{

namespace
{

fovea_latest_options dropping()
{
    fovea_latest_options out = FOVEA_LATEST_OPTIONS_INIT;
    out.drop = [](void *, void *frame) { delete static_cast<Mailbox::Image *>(frame); };
    return out;
}

const fovea_latest_options options = dropping();

} // namespace

Mailbox::Mailbox() : latest_(&options)
{
}

void Mailbox::put(const Image &image)
{
    auto kept = std::make_unique<Image>(image);
    const std::lock_guard<std::mutex> hold(putting_);
    if (latest_.try_put(*kept) == FOVEA_OK)
        kept.release(); /* or the mailbox is closed */
}

Mailbox::Image Mailbox::take()
{
    Image *taken = nullptr;
    fovea::check(latest_.try_take(taken));
    const std::unique_ptr<Image> owned(taken);
    return taken && !closed_ ? *taken : nullptr;
}

void Mailbox::close()
{
    const std::lock_guard<std::mutex> hold(putting_);
    closed_ = true;
    latest_.end();
}

std::uint64_t Mailbox::dropped() const
{
    return latest_.info().replaced;
}

} // namespace fovea_ros
