#include "encodings.hpp"

#include <algorithm>
#include <cstdint>
#include <stdexcept>

namespace fovea_ros
{

namespace
{

using sensor_msgs::msg::Image;

/* "yuv422" is UYVY, and is called "uyvy" from ROS 2 Iron on. ROS has no name for NV12. */
constexpr Encoding encodings[] = {
    {"rgb8", FOVEA_LAYOUT_RGB24},   {"bgr8", FOVEA_LAYOUT_BGR24},
    {"mono8", FOVEA_LAYOUT_GRAY},   {"mono16", FOVEA_LAYOUT_GRAY16},
    {"rgba8", FOVEA_LAYOUT_RGB0},   {"bgra8", FOVEA_LAYOUT_BGR0},
    {"yuyv", FOVEA_LAYOUT_YUYV422}, {"yuv422_yuy2", FOVEA_LAYOUT_YUYV422},
    {"uyvy", FOVEA_LAYOUT_UYVY422}, {"yuv422", FOVEA_LAYOUT_UYVY422},
    {"nv12", FOVEA_LAYOUT_NV12},    {"nv21", FOVEA_LAYOUT_NV21},
    {"nv24", FOVEA_LAYOUT_NV24},
};

/* The stride of a plane in units of `step`: 1; 2 for NV24's chroma, whose rows have twice as many
 * bytes. */
std::size_t steps_of(const Encoding &encoding, std::uint32_t plane)
{
    return encoding.layout == FOVEA_LAYOUT_NV24 && plane == 1 ? 2 : 1;
}

void check_size(const Image &image, const Encoding &encoding, const fovea_layout_info &info)
{
    std::size_t row = 0, rows = 0;
    for (std::uint32_t p = 0; p < info.planes; p++) {
        const std::size_t steps = steps_of(encoding, p);
        row = std::max(row, info.bytes[p] / steps);
        rows += info.rows[p] * steps;
    }
    const std::string what = std::to_string(image.width) + "x" + std::to_string(image.height) +
                             " pixels of " + image.encoding + ": ";
    const std::size_t needed = image.step * (rows - 1) + row;
    if (image.step < row)
        throw std::invalid_argument(what + "step " + std::to_string(image.step) +
                                    " is less than the " + std::to_string(row) + " bytes of a row");
    if (image.data.size() < needed)
        throw std::invalid_argument(what + "the image has " + std::to_string(image.data.size()) +
                                    " bytes, but " + std::to_string(needed) + " are needed");
    if (image.is_bigendian && encoding.layout == FOVEA_LAYOUT_GRAY16)
        throw std::invalid_argument(what + "the image is big-endian; publish it as little-endian");
}

} // namespace

const Encoding &encoding_of(const std::string &name)
{
    std::string known;
    for (const Encoding &one : encodings) {
        if (name == one.name)
            return one;
        known += known.empty() ? one.name : std::string(", ") + one.name;
    }
    throw std::invalid_argument(
        "encoding \"" + name + "\": it must be one of " + known +
        "; convert the images before this node (Bayer images with image_proc)");
}

void Pixels::prepare(const Image &image, const Encoding &encoding, int rule)
{
    fovea_colours colours = FOVEA_COLOURS_INIT;
    if (&encoding == encoding_ && image.width == width_ && image.height == height_)
        return;
    if (!image.width || !image.height)
        throw std::invalid_argument("the image is empty; its encoding is " + image.encoding);
    encoding_ = nullptr;
    colours.origin = FOVEA_ORIGIN_CAMERA;
    colours.layout = encoding.layout;
    colours.height = image.height;
    fovea::check(fovea_yuv_matrix_choose(&yuv_, &colours));
    if (rule >= 0)
        yuv_ = static_cast<fovea_yuv_matrix>(rule);
    converter_ = fovea::converter(encoding.layout, image.width, image.height, yuv_);
    encoding_ = &encoding;
    width_ = image.width;
    height_ = image.height;
}

fovea_frame Pixels::frame(const Image &image, const Encoding &encoding, int rule)
{
    prepare(image, encoding, rule);
    const fovea_layout_info &info = converter_.info();
    check_size(image, encoding, info);
    fovea_frame in = {};
    const std::uint8_t *from = image.data.data();
    for (std::uint32_t p = 0; p < info.planes; p++) {
        in.pixels[p] = from;
        in.stride[p] = image.step * steps_of(encoding, p);
        from += in.stride[p] * info.rows[p];
    }
    return converter_(in);
}

fovea_pixel_format Pixels::format() const
{
    return converter_.info().format;
}

fovea_yuv_matrix Pixels::yuv() const
{
    return yuv_;
}

} // namespace fovea_ros
