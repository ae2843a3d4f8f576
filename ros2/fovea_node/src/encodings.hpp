/* encodings.hpp: converts the pixels of a sensor_msgs/Image for Fovea. */
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

/* Throws std::invalid_argument for an unsupported encoding; the message lists the supported
 * ones. */
const Encoding &encoding_of(const std::string &name);

/* The frame in an image. It points to the image's memory if Fovea reads the encoding's byte order,
 * else to a copy that is kept until the next image. */
class Pixels
{
  public:
    /* `rule`: a fovea_yuv_matrix, the meaning of luma and chroma; -1: the choice of
     * fovea_yuv_matrix_choose for a camera. Throws std::invalid_argument if rows are shorter than
     * the width, or if data is missing. The frame is valid until the next call, as long as the
     * image exists. */
    fovea_frame frame(const sensor_msgs::msg::Image &image, const Encoding &encoding, int rule);
    /* The format of that frame, for its plan. */
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
