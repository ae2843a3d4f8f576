/* encodings.hpp: pixels of a sensor_msgs/Image as Fovea takes them. */
#ifndef FOVEA_ROS_ENCODINGS_HPP
#define FOVEA_ROS_ENCODINGS_HPP

#include <string>

#include <fovea/fovea.hpp>
#include <sensor_msgs/msg/image.hpp>

namespace fovea_ros
{

struct Encoding {
    const char *name;
    fovea_layout layout;
};

/* Throws std::invalid_argument for one that Fovea does not read, with those that it does. */
const Encoding &encoding_of(const std::string &name);

/* The frame in an image: its own memory where the bytes are in an order of Fovea's, else a copy
 * that is kept until the next image. */
class Pixels
{
  public:
    /* `rule`: what luma and chroma stand for, a fovea_yuv_matrix; -1: what fovea_yuv_matrix_choose
     * says of a camera. Throws std::invalid_argument where rows are shorter than the width, or
     * there is less data than rows. The frame is good until the next call, as long as the image
     * lives. */
    fovea_frame frame(const sensor_msgs::msg::Image &image, const Encoding &encoding, int rule);
    /* Of that frame, for its plan. */
    fovea_pixel_format format() const;
    fovea_yuv_matrix yuv() const;

  private:
    void prepare(const sensor_msgs::msg::Image &image, const Encoding &encoding, int rule);

    fovea::converter converter_; /* for images like this: */
    const Encoding *encoding_ = nullptr;
    std::uint32_t width_ = 0, height_ = 0;
    fovea_yuv_matrix yuv_ = FOVEA_YUV_601;
};

} // namespace fovea_ros

#endif
