// Views of arrays in row-major order that somebody else owns.
#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace safespot {

using Index = std::ptrdiff_t;
using Int = std::int64_t;

// Indices are checked where assertions are on, as in a debug build.
template <class T, int Rank>
class View {
public:
    View() = default;
    View(T* data, const std::array<Index, Rank>& extents) : data_(data), extents_(extents) {}

    // NOLINTNEXTLINE(google-explicit-constructor): what may be written may be read
    operator View<const T, Rank>() const
        requires(!std::is_const_v<T>)
    {
        return {data_, extents_};
    }

    Index extent(int axis) const { return extents_[axis]; }
    T* data() const { return data_; }
    bool empty() const { return size() == 0; }

    Index size() const {
        Index entries = 1;
        for (Index extent : extents_) entries *= extent;
        return entries;
    }

    template <class... I>
        requires(sizeof...(I) == Rank)
    T& operator()(I... indices) const {
        Index place = 0;
        int axis = 0;
        ((assert(0 <= indices && indices < extents_[axis]), place = place * extents_[axis++] + indices), ...);
        return data_[place];
    }

    T& operator[](Index i) const
        requires(Rank == 1)
    {
        assert(0 <= i && i < extents_[0]);
        return data_[i];
    }

    // One entry of the first axis.
    View<T, Rank - 1> operator[](Index i) const
        requires(Rank > 1)
    {
        assert(0 <= i && i < extents_[0]);
        std::array<Index, Rank - 1> rest;
        Index entries = 1;
        for (int axis = 1; axis < Rank; ++axis) {
            rest[axis - 1] = extents_[axis];
            entries *= extents_[axis];
        }
        return {data_ + i * entries, rest};
    }

    // Entries `first` up to `last` of the first axis.
    View part(Index first, Index last) const {
        assert(0 <= first && first <= last && last <= extents_[0]);
        std::array<Index, Rank> extents = extents_;
        Index entries = 1;
        for (int axis = 1; axis < Rank; ++axis) entries *= extents_[axis];
        extents[0] = last - first;
        return {data_ + first * entries, extents};
    }

    View<T, 1> flat() const { return {data_, {size()}}; }

private:
    T* data_ = nullptr;
    std::array<Index, Rank> extents_{};
};

template <int Rank>
using Floats = View<double, Rank>;
template <int Rank>
using ConstFloats = View<const double, Rank>;

}  // namespace safespot
