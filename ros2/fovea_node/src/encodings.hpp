/* encodings.hpp: pixels of a sensor_msgs/Image as Fovea takes them. */
#ifndef FOVEA_ROS_ENCODINGS_HPP
#define FOVEA_ROS_ENCODINGS_HPP

#include <cstdint>
#include <string>
#include <vector>

#include <fovea/fovea.hpp>
#include <sensor_msgs/msg/image.hpp>

namespace fovea_ros
{

/* What has to be done to the bytes. */
enum class Order {
    AS_IT_IS,
    DROP_FOURTH, /* of four bytes a pixel the first three */
    SWAP_PAIRS,  /* of every two bytes of a row */
    SWAP_CHROMA, /* the same, of the second plane */
};

struct Encoding {
    const char *name;
    fovea_format format;
    Order order;
};

/* Throws std::invalid_argument for one that Fovea does not read, with those that it does. */
const Encoding &encoding_of(const std::string &name);

/* The frame in an image: its own memory where the bytes are in Fovea's order, else a copy that is
 * kept for the next image. */
class Pixels
{
  public:
    /* Throws std::invalid_argument where rows are shorter than the width, or there is less data
     * than rows. The frame is good until the next call, as long as the image lives. */
    fovea_frame frame(const sensor_msgs::msg::Image &image, const Encoding &encoding);

  private:
    std::vector<std::uint8_t> copy_;
};

} // namespace fovea_ros

#endif
