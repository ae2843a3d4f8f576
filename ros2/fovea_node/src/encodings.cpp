#include "encodings.hpp"

#include <stdexcept>

namespace fovea_ros
{

namespace
{

using sensor_msgs::msg::Image;

/* "yuv422" is UYVY, and is called "uyvy" from Iron on; NV12 has no name of ROS's own. */
constexpr Encoding encodings[] = {
    {"rgb8", FOVEA_FORMAT_RGB8, Order::AS_IT_IS},
    {"bgr8", FOVEA_FORMAT_BGR8, Order::AS_IT_IS},
    {"mono8", FOVEA_FORMAT_GRAY8, Order::AS_IT_IS},
    {"rgba8", FOVEA_FORMAT_RGB8, Order::DROP_FOURTH},
    {"bgra8", FOVEA_FORMAT_BGR8, Order::DROP_FOURTH},
    {"yuyv", FOVEA_FORMAT_YUYV, Order::AS_IT_IS},
    {"yuv422_yuy2", FOVEA_FORMAT_YUYV, Order::AS_IT_IS},
    {"uyvy", FOVEA_FORMAT_YUYV, Order::SWAP_PAIRS},
    {"yuv422", FOVEA_FORMAT_YUYV, Order::SWAP_PAIRS},
    {"nv12", FOVEA_FORMAT_NV12, Order::AS_IT_IS},
    {"nv21", FOVEA_FORMAT_NV12, Order::SWAP_CHROMA},
};

/* With an odd width the last pair of chroma is there as a whole. */
std::uint64_t row_bytes(const Encoding &encoding, std::uint64_t width)
{
    const std::uint64_t even = (width + 1) / 2 * 2;
    if (encoding.order == Order::DROP_FOURTH)
        return width * 4;
    if (encoding.format == FOVEA_FORMAT_NV12)
        return even;
    if (encoding.format == FOVEA_FORMAT_YUYV)
        return even * 2;
    return encoding.format == FOVEA_FORMAT_GRAY8 ? width : width * 3;
}

std::uint64_t all_rows(const Encoding &encoding, std::uint64_t height)
{
    return encoding.format == FOVEA_FORMAT_NV12 ? height + (height + 1) / 2 : height;
}

void check_size(const Image &image, const Encoding &encoding)
{
    const std::uint64_t row = row_bytes(encoding, image.width);
    const std::uint64_t rows = all_rows(encoding, image.height);
    const std::string what = std::to_string(image.width) + "x" + std::to_string(image.height) +
                             " pixels of " + image.encoding + ": ";
    if (!image.width || !image.height)
        throw std::invalid_argument(what + "an empty image");
    if (image.step < row)
        throw std::invalid_argument(what + "step " + std::to_string(image.step) +
                                    " is less than the " + std::to_string(row) + " bytes of a row");
    if (image.data.size() < image.step * (rows - 1) + row)
        throw std::invalid_argument(what + "there are " + std::to_string(image.data.size()) +
                                    " bytes, " + std::to_string(image.step * (rows - 1) + row) +
                                    " are needed");
}

/* Rows of three bytes a pixel, packed. */
void drop_fourth(std::vector<std::uint8_t> &to, const Image &image)
{
    const std::size_t width = image.width;
    to.resize(width * image.height * 3);
    for (std::size_t y = 0; y < image.height; y++) {
        const std::uint8_t *in = image.data.data() + y * image.step;
        std::uint8_t *out = to.data() + y * width * 3;
        for (std::size_t x = 0; x < width; x++)
            for (std::size_t c = 0; c < 3; c++)
                out[3 * x + c] = in[4 * x + c];
    }
}

/* Every two bytes of `rows` rows from row `first` on, in packed rows. */
void swap_pairs(std::vector<std::uint8_t> &to, const Image &image, std::size_t first,
                std::size_t rows, std::size_t bytes)
{
    to.resize(rows * bytes);
    for (std::size_t y = 0; y < rows; y++) {
        const std::uint8_t *in = image.data.data() + (first + y) * image.step;
        std::uint8_t *out = to.data() + y * bytes;
        for (std::size_t x = 0; x < bytes; x += 2) {
            out[x] = in[x + 1];
            out[x + 1] = in[x];
        }
    }
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
    throw std::invalid_argument("encoding \"" + name + "\": wanted one of " + known +
                                "; convert the images before this node, Bayer's with image_proc");
}

fovea_frame Pixels::frame(const Image &image, const Encoding &encoding)
{
    check_size(image, encoding);
    const std::size_t row = row_bytes(encoding, image.width), height = image.height;
    fovea_frame out = {};
    out.pixels[0] = image.data.data();
    out.stride[0] = image.step;
    if (encoding.format == FOVEA_FORMAT_NV12) {
        out.pixels[1] = image.data.data() + height * image.step;
        out.stride[1] = image.step;
    }
    switch (encoding.order) {
    case Order::AS_IT_IS:
        break;
    case Order::DROP_FOURTH:
        drop_fourth(copy_, image);
        out.pixels[0] = copy_.data();
        out.stride[0] = 0;
        break;
    case Order::SWAP_PAIRS:
        swap_pairs(copy_, image, 0, height, row);
        out.pixels[0] = copy_.data();
        out.stride[0] = row;
        break;
    case Order::SWAP_CHROMA:
        swap_pairs(copy_, image, height, (height + 1) / 2, row);
        out.pixels[1] = copy_.data();
        out.stride[1] = row;
        break;
    }
    return out;
}

} // namespace fovea_ros
