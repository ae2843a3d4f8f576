/* What fovea_node and its test use of rclcpp, with its signatures: nodes of one process, whose
 * messages wait in queues until an executor takes them. */
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <builtin_interfaces/msg/time.hpp>
#include <rcl_interfaces/msg/parameter_descriptor.hpp>

/* ---- rcl, rmw ---- */

enum rcl_clock_type_t { RCL_ROS_TIME = 1, RCL_SYSTEM_TIME, RCL_STEADY_TIME };
enum rmw_qos_history_policy_t { RMW_QOS_POLICY_HISTORY_KEEP_LAST = 1 };
struct rmw_qos_profile_t {
    rmw_qos_history_policy_t history;
    std::size_t depth;
};
inline const rmw_qos_profile_t rmw_qos_profile_default = {RMW_QOS_POLICY_HISTORY_KEEP_LAST, 10};

namespace rclcpp
{

namespace exceptions
{
struct InvalidParameterValueException : std::runtime_error {
    using std::runtime_error::runtime_error;
};
struct InvalidParameterTypeException : std::runtime_error {
    using std::runtime_error::runtime_error;
};
} // namespace exceptions

/* ---- quality of service ---- */

struct QoSInitialization {
    rmw_qos_history_policy_t history_policy;
    std::size_t depth;
    static QoSInitialization from_rmw(const rmw_qos_profile_t &profile)
    {
        return {profile.history, profile.depth};
    }
};
class QoS
{
  public:
    explicit QoS(const QoSInitialization &first,
                 const rmw_qos_profile_t &profile = rmw_qos_profile_default)
        : profile_(profile)
    {
        keep_last(first.depth);
    }
    QoS(std::size_t depth) : profile_(rmw_qos_profile_default) // NOLINT: rclcpp's is implicit too
    {
        keep_last(depth);
    }
    QoS &keep_last(std::size_t depth)
    {
        profile_.depth = depth;
        return *this;
    }
    const rmw_qos_profile_t &get_rmw_qos_profile() const
    {
        return profile_;
    }
    std::size_t depth() const
    {
        return profile_.depth;
    }

  private:
    rmw_qos_profile_t profile_;
};
struct SensorDataQoS : QoS {
    SensorDataQoS() : QoS(5)
    {
    }
};

/* ---- time ---- */

class Duration
{
  public:
    explicit Duration(std::chrono::nanoseconds time) : time_(time)
    {
    }
    double seconds() const
    {
        return std::chrono::duration<double>(time_).count();
    }

  private:
    std::chrono::nanoseconds time_;
};
class Time
{
  public:
    explicit Time(std::int64_t nanoseconds = 0, rcl_clock_type_t type = RCL_SYSTEM_TIME)
        : time_(nanoseconds), type_(type)
    {
    }
    explicit Time(const builtin_interfaces::msg::Time &time, rcl_clock_type_t type = RCL_ROS_TIME)
        : time_(std::int64_t{time.sec} * 1000000000 + time.nanosec), type_(type)
    {
    }
    operator builtin_interfaces::msg::Time() const // NOLINT: rclcpp's is implicit too
    {
        return {static_cast<std::int32_t>(time_ / 1000000000),
                static_cast<std::uint32_t>(time_ % 1000000000)};
    }
    Duration operator-(const Time &other) const
    {
        if (type_ != other.type_)
            throw std::runtime_error("can't subtract times with different time sources");
        return Duration(std::chrono::nanoseconds(time_ - other.time_));
    }

  private:
    std::int64_t time_;
    rcl_clock_type_t type_;
};
class Clock
{
  public:
    explicit Clock(rcl_clock_type_t type = RCL_SYSTEM_TIME) : type_(type)
    {
    }
    Time now() const
    {
        const auto steady = std::chrono::steady_clock::now().time_since_epoch();
        const auto system = std::chrono::system_clock::now().time_since_epoch();
        return Time(std::chrono::nanoseconds(type_ == RCL_STEADY_TIME ? steady : system).count(),
                    type_);
    }

  private:
    rcl_clock_type_t type_;
};

/* ---- the log ---- */

struct Logger {
    std::string name;
};
#define RCLCPP_WARN(logger, ...)                                                                   \
    do {                                                                                           \
        (void)(logger);                                                                            \
        std::fprintf(stderr, __VA_ARGS__);                                                         \
        std::fputc('\n', stderr);                                                                  \
    } while (0)

#define RCLCPP_ERROR_THROTTLE(logger, clock, duration, ...)                                        \
    do {                                                                                           \
        static std::chrono::steady_clock::time_point next;                                         \
        const rclcpp::Logger log_of = logger;                                                      \
        (void)(clock).now();                                                                       \
        if (std::chrono::steady_clock::now() < next)                                               \
            break;                                                                                 \
        next = std::chrono::steady_clock::now() + std::chrono::milliseconds(duration);             \
        std::fprintf(stderr, "[ERROR] [%s]: ", log_of.name.c_str());                               \
        std::fprintf(stderr, __VA_ARGS__);                                                         \
        std::fputc('\n', stderr);                                                                  \
    } while (0)

/* ---- parameters ---- */

class ParameterValue
{
  public:
    std::variant<bool, std::int64_t, double, std::string> value;
    explicit ParameterValue(bool b) : value(b)
    {
    }
    explicit ParameterValue(int i) : value(std::int64_t{i})
    {
    }
    explicit ParameterValue(std::int64_t i) : value(i)
    {
    }
    explicit ParameterValue(double d) : value(d)
    {
    }
    explicit ParameterValue(const std::string &s) : value(s)
    {
    }
    explicit ParameterValue(const char *s) : value(std::string(s))
    {
    }
};
class Parameter
{
  public:
    Parameter(const std::string &name, const ParameterValue &value) : name_(name), value_(value)
    {
    }
    template <typename T>
    Parameter(const std::string &name, T value) : Parameter(name, ParameterValue(value))
    {
    }
    const std::string &get_name() const
    {
        return name_;
    }
    const ParameterValue &get_parameter_value() const
    {
        return value_;
    }
    std::int64_t as_int() const
    {
        return std::get<std::int64_t>(value_.value);
    }
    double as_double() const
    {
        return std::get<double>(value_.value);
    }

  private:
    std::string name_;
    ParameterValue value_;
};
class NodeOptions
{
  public:
    template <typename T>
    NodeOptions &append_parameter_override(const std::string &name, const T &value)
    {
        overrides_.emplace_back(name, ParameterValue(value));
        return *this;
    }
    const std::vector<Parameter> &parameter_overrides() const
    {
        return overrides_;
    }
    NodeOptions &use_intra_process_comms(bool)
    {
        return *this;
    }

  private:
    std::vector<Parameter> overrides_;
};

/* ---- topics ---- */

struct SubscriptionOptions {
};
class SubscriptionBase
{
  public:
    using SharedPtr = std::shared_ptr<SubscriptionBase>;
    virtual ~SubscriptionBase() = default;
    /* Runs the callback on one message, if there is any. */
    virtual bool take() = 0;
};
/* Of all nodes; executors sleep until something changes. */
struct Graph {
    std::mutex lock;
    std::condition_variable changed;
    std::map<std::string, std::vector<std::weak_ptr<SubscriptionBase>>> topics;
    static Graph &get()
    {
        static Graph graph;
        return graph;
    }
};
template <typename T> class Subscription : public SubscriptionBase
{
  public:
    using SharedPtr = std::shared_ptr<Subscription>;
    using Callback = std::function<void(const std::shared_ptr<const T> &)>;
    Subscription(std::size_t depth, Callback callback)
        : depth_(depth), callback_(std::move(callback))
    {
    }
    void put(std::shared_ptr<const T> message)
    {
        const std::lock_guard<std::mutex> hold(lock_);
        queue_.push_back(std::move(message));
        if (queue_.size() > depth_)
            queue_.pop_front();
    }
    bool take() override
    {
        std::shared_ptr<const T> message;
        {
            const std::lock_guard<std::mutex> hold(lock_);
            if (queue_.empty())
                return false;
            message = std::move(queue_.front());
            queue_.pop_front();
        }
        callback_(message);
        return true;
    }

  private:
    std::mutex lock_;
    std::deque<std::shared_ptr<const T>> queue_;
    std::size_t depth_;
    Callback callback_;
};
template <typename T> class Publisher
{
  public:
    using SharedPtr = std::shared_ptr<Publisher>;
    explicit Publisher(std::string topic) : topic_(std::move(topic))
    {
    }
    void publish(std::unique_ptr<T> message)
    {
        const std::shared_ptr<const T> shared = std::move(message);
        for (const auto &one : subscriptions())
            std::static_pointer_cast<Subscription<T>>(one)->put(shared);
        Graph::get().changed.notify_all();
    }
    std::size_t get_subscription_count() const
    {
        return subscriptions().size();
    }

  private:
    std::vector<SubscriptionBase::SharedPtr> subscriptions() const
    {
        Graph &graph = Graph::get();
        const std::lock_guard<std::mutex> hold(graph.lock);
        std::vector<SubscriptionBase::SharedPtr> out;
        for (const auto &one : graph.topics[topic_])
            if (SubscriptionBase::SharedPtr subscription = one.lock())
                out.push_back(std::move(subscription));
        return out;
    }
    std::string topic_;
};

/* ---- nodes ---- */

namespace node_interfaces
{
class NodeTopicsInterface
{
  public:
    using SharedPtr = std::shared_ptr<NodeTopicsInterface>;
    explicit NodeTopicsInterface(std::string node) : node_(std::move(node))
    {
    }
    std::string resolve_topic_name(const std::string &name, bool only_expand = false) const
    {
        (void)only_expand;
        return name[0] == '~' ? "/" + node_ + name.substr(1) : name[0] == '/' ? name : "/" + name;
    }

  private:
    std::string node_;
};
} // namespace node_interfaces

class Node
{
  public:
    using SharedPtr = std::shared_ptr<Node>;
    explicit Node(const std::string &name, const NodeOptions &options = NodeOptions())
        : name_("/" + name), options_(options),
          topics_(std::make_shared<node_interfaces::NodeTopicsInterface>(name))
    {
    }
    virtual ~Node() = default;
    Node(const Node &) = delete;
    Node &operator=(const Node &) = delete;
    const char *get_fully_qualified_name() const
    {
        return name_.c_str();
    }
    Logger get_logger() const
    {
        return {name_.substr(1)};
    }
    Time now() const
    {
        return Clock(RCL_ROS_TIME).now();
    }
    node_interfaces::NodeTopicsInterface::SharedPtr get_node_topics_interface()
    {
        return topics_;
    }
    template <typename T>
    auto declare_parameter(const std::string &name, const T &standard,
                           const rcl_interfaces::msg::ParameterDescriptor &descriptor =
                               rcl_interfaces::msg::ParameterDescriptor(),
                           bool ignore_override = false)
    {
        ParameterValue value(standard);
        for (const Parameter &one : options_.parameter_overrides())
            if (one.get_name() == name && !ignore_override)
                value = one.get_parameter_value();
        if (!std::holds_alternative<T>(value.value))
            throw exceptions::InvalidParameterTypeException("parameter '" + name + "'");
        if (!within(descriptor, value))
            throw exceptions::InvalidParameterValueException("parameter '" + name +
                                                             "' could not be set: out of range");
        const std::lock_guard<std::mutex> hold(lock_);
        parameters_.insert_or_assign(name, std::make_pair(value, descriptor));
        return std::get<T>(value.value);
    }
    Parameter get_parameter(const std::string &name) const
    {
        const std::lock_guard<std::mutex> hold(lock_);
        return Parameter(name, parameters_.at(name).first);
    }
    rcl_interfaces::msg::SetParametersResult set_parameter(const Parameter &parameter)
    {
        const std::lock_guard<std::mutex> hold(lock_);
        auto &[value, descriptor] = parameters_.at(parameter.get_name());
        if (descriptor.read_only)
            return {false, "parameter '" + parameter.get_name() +
                               "' cannot be set because it is "
                               "read-only"};
        if (!within(descriptor, parameter.get_parameter_value()))
            return {false, "out of range"};
        value = parameter.get_parameter_value();
        return {true, ""};
    }
    template <typename T>
    typename Publisher<T>::SharedPtr create_publisher(const std::string &topic, const QoS &)
    {
        return std::make_shared<Publisher<T>>(topics_->resolve_topic_name(topic));
    }
    template <typename T, typename Callback>
    typename Subscription<T>::SharedPtr
    create_subscription(const std::string &topic, const QoS &qos, Callback &&callback,
                        const SubscriptionOptions & = SubscriptionOptions())
    {
        auto out = std::make_shared<Subscription<T>>(qos.depth(), std::forward<Callback>(callback));
        Graph &graph = Graph::get();
        const std::lock_guard<std::mutex> hold(graph.lock);
        graph.topics[topics_->resolve_topic_name(topic)].push_back(out);
        subscriptions_.push_back(out);
        return out;
    }
    /* For executors, with the graph's lock. */
    std::vector<std::weak_ptr<SubscriptionBase>> subscriptions() const
    {
        return subscriptions_;
    }

  private:
    static bool within(const rcl_interfaces::msg::ParameterDescriptor &descriptor,
                       const ParameterValue &value)
    {
        for (const auto &range : descriptor.integer_range)
            if (const auto *i = std::get_if<std::int64_t>(&value.value))
                return *i >= range.from_value && *i <= range.to_value;
        for (const auto &range : descriptor.floating_point_range)
            if (const auto *d = std::get_if<double>(&value.value))
                return *d >= range.from_value && *d <= range.to_value;
        return true;
    }
    std::string name_;
    NodeOptions options_;
    node_interfaces::NodeTopicsInterface::SharedPtr topics_;
    mutable std::mutex lock_; /* of parameters */
    std::map<std::string, std::pair<ParameterValue, rcl_interfaces::msg::ParameterDescriptor>>
        parameters_;
    std::vector<std::weak_ptr<SubscriptionBase>> subscriptions_;
};

/* ---- executors ---- */

namespace executors
{
class SingleThreadedExecutor
{
  public:
    void add_node(std::shared_ptr<Node> node, bool notify = true)
    {
        (void)notify;
        const std::lock_guard<std::mutex> hold(Graph::get().lock);
        nodes_.push_back(node);
    }
    /* A callback that runs goes on, even if its node is gone. */
    void remove_node(std::shared_ptr<Node> node, bool notify = true)
    {
        (void)notify;
        const std::lock_guard<std::mutex> hold(Graph::get().lock);
        nodes_.erase(std::remove_if(nodes_.begin(), nodes_.end(),
                                    [&](const auto &one) { return one.lock() == node; }),
                     nodes_.end());
    }
    void spin_some(std::chrono::nanoseconds = std::chrono::nanoseconds(0))
    {
        for (const auto &one : ready())
            while (one->take()) {
            }
    }
    void spin()
    {
        Graph &graph = Graph::get();
        while (!cancelled_) {
            spin_some();
            std::unique_lock<std::mutex> hold(graph.lock);
            graph.changed.wait_for(hold, std::chrono::milliseconds(1));
        }
        cancelled_ = false;
    }
    void cancel()
    {
        cancelled_ = true;
    }

  private:
    std::vector<SubscriptionBase::SharedPtr> ready() const
    {
        std::vector<std::shared_ptr<Node>> alive; /* the last owner must not hold the lock */
        std::vector<SubscriptionBase::SharedPtr> out;
        const std::lock_guard<std::mutex> hold(Graph::get().lock);
        for (const auto &node : nodes_) {
            alive.push_back(node.lock());
            if (!alive.back())
                continue;
            for (const auto &one : alive.back()->subscriptions())
                if (SubscriptionBase::SharedPtr subscription = one.lock())
                    out.push_back(std::move(subscription));
        }
        return out;
    }
    std::vector<std::weak_ptr<Node>> nodes_;
    std::atomic<bool> cancelled_{false};
};
} // namespace executors

inline void init(int, char const *const *)
{
}
inline bool shutdown()
{
    return true;
}

} // namespace rclcpp
