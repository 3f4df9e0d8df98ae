// Sums and products of vectors and matrices in an order that is fixed: no library, number of
// threads or width of vectors changes a bit.
#pragma once

#include <algorithm>
#include <utility>

#include "views.hpp"

namespace safespot {

inline constexpr Index long_row = 8;  // entries from which on a row is summed in four parts

// term(first) + … + term(first + N - 1), by halves.
template <int N, class Term>
double pairwise(const Term& term, Index first = 0) {
    if constexpr (N == 1) {
        return term(first);
    } else {
        return pairwise<N / 2>(term, first) + pairwise<N / 2>(term, first + N / 2);
    }
}

// sum_k term(k) in four partial sums, so that an addition need not wait for the one before.
template <class Term>
double four_sums(Index n, const Term& term) {
    const Index whole = n - n % 4;
    std::array<double, 4> parts{};
    for (Index k = 0; k < whole; k += 4) {
        for (Index j = 0; j < 4; ++j) parts[j] += term(k + j);
    }
    for (Index k = whole; k < n; ++k) parts[0] += term(k);
    return (parts[0] + parts[1]) + (parts[2] + parts[3]);
}

inline double dot(ConstFloats<1> x, ConstFloats<1> y) {
    return four_sums(x.extent(0), [&](Index k) { return x[k] * y[k]; });
}

// sum_{a < A} term(a): from the first to the last, or of a long row in four parts.
template <class Width, class Term>
double row_sum(Width A, const Term& term) {
    if (A >= long_row) return four_sums(A, term);
    double sum = term(0);
    for (Index a = 1; a < A; ++a) sum += term(a);
    return sum;
}

// work(A) with short widths known at compile time, so that no loop begins for each row.
template <class Work>
void with_width(Index A, const Work& work) {
    switch (A) {
        case 2: return work(std::integral_constant<Index, 2>{});
        case 3: return work(std::integral_constant<Index, 3>{});
        case 4: return work(std::integral_constant<Index, 4>{});
        case 5: return work(std::integral_constant<Index, 5>{});
        default: return work(A);
    }
}

// out[j] = sum_a x[j*A + a] y[j*A + a] for each row j of `out`.
inline void sum_products(ConstFloats<1> x, ConstFloats<1> y, Index A, Floats<1> out) {
    with_width(A, [&](auto width) {
        for (Index j = 0; j < out.extent(0); ++j) {
            out[j] = row_sum(width, [&](Index a) { return x[j * width + a] * y[j * width + a]; });
        }
    });
}

// N rows with their weights, none of which changes while they are added.
template <int N>
struct Rows {
    std::array<double, N> weight;
    std::array<ConstFloats<1>, N> row;

    Rows(ConstFloats<1> weights, ConstFloats<2> rows, Index j, Index first, Index last) {
        for (int i = 0; i < N; ++i) {
            weight[i] = weights[j + i];
            row[i] = rows[j + i].part(first, last);
        }
    }
    bool any() const {
        return pairwise<N>([&](Index i) { return weight[i]; }) != 0.0;
    }
    template <int M = N>
    double at(Index k, Index begin = 0) const {
        return pairwise<M>([&](Index i) { return weight[i] * row[i][k]; }, begin);
    }
};

// out[k] += sum_i weights[j+i] rows[j+i, first+k] for N rows, if any of these weights is not 0.
template <int N>
void add_rows(ConstFloats<1> weights, ConstFloats<2> rows, Index j, Index first, Floats<1> out) {
    const Index length = out.extent(0);
    const Rows<N> some(weights, rows, j, first, first + length);
    if (!some.any()) return;
#pragma GCC ivdep
    for (Index k = 0; k < length; ++k) out[k] += some.at(k);
}

// out[k] = sum_j weights[j] rows[j, first+k]; weights are at least 0.
//
// Entries of a row are independent, so the loops over k are vectorized as they stand. Eight rows
// at a time, then four: starting a loop and going through `out` costs as much as several rows.
inline void mix_rows(ConstFloats<1> weights, ConstFloats<2> rows, Index first, Floats<1> out) {
    const Index n = rows.extent(0), length = out.extent(0);
    if (length < 4) {  // no vector to fill: entry by entry
        for (Index k = 0; k < length; ++k) {
            double entry = weights[0] * rows(0, first + k);
            for (Index j = 1; j < n; ++j) entry += weights[j] * rows(j, first + k);
            out[k] = entry;
        }
        return;
    }
    const Rows<1> head(weights, rows, 0, first, first + length);
#pragma GCC ivdep
    for (Index k = 0; k < length; ++k) out[k] = head.at(k);
    Index j = 1;
    for (; j + 8 <= n; j += 8) add_rows<8>(weights, rows, j, first, out);
    for (; j + 4 <= n; j += 4) add_rows<4>(weights, rows, j, first, out);
    for (; j < n; ++j) add_rows<1>(weights, rows, j, first, out);
}

// `mix_rows` with two weights at once, by two rows: each entry of `rows` is read once for both,
// and reading is what takes the time.
inline void mix_rows_twice(ConstFloats<1> weights, ConstFloats<1> others, ConstFloats<2> rows, Index first,
                           Floats<1> out, Floats<1> out2) {
    const Index n = rows.extent(0), length = out.extent(0), last = first + length;
    Index j = 1;
    if (n > 2) {
        const Rows<3> a(weights, rows, 0, first, last), b(others, rows, 0, first, last);
#pragma GCC ivdep
        for (Index k = 0; k < length; ++k) {
            out[k] = a.at<1>(k) + a.at<2>(k, 1);
            out2[k] = b.at<1>(k) + b.at<2>(k, 1);
        }
        j = 3;
    } else {
        const Rows<1> a(weights, rows, 0, first, last), b(others, rows, 0, first, last);
#pragma GCC ivdep
        for (Index k = 0; k < length; ++k) {
            out[k] = a.at(k);
            out2[k] = b.at(k);
        }
    }
    for (; j + 4 <= n; j += 4) {
        const Rows<4> a(weights, rows, j, first, last), b(others, rows, j, first, last);
        if (!a.any() && !b.any()) continue;
#pragma GCC ivdep
        for (Index k = 0; k < length; ++k) {
            out[k] = (out[k] + a.at<2>(k)) + a.at<2>(k, 2);
            out2[k] = (out2[k] + b.at<2>(k)) + b.at<2>(k, 2);
        }
    }
    const auto add = [&]<int N>(std::integral_constant<int, N>) {
        const Rows<N> a(weights, rows, j, first, last), b(others, rows, j, first, last);
#pragma GCC ivdep
        for (Index k = 0; k < length; ++k) {
            out[k] += a.at(k);
            out2[k] += b.at(k);
        }
        j += N;
    };
    if (j + 2 <= n) add(std::integral_constant<int, 2>{});
    if (j < n) add(std::integral_constant<int, 1>{});
}

// `mix_rows` for every row of `weights` [C, n], into the first `length` entries of `out` [C, .].
inline void mix_rows_of_all(ConstFloats<2> weights, ConstFloats<2> rows, Index first, Index length, Floats<2> out) {
    const Index C = weights.extent(0);
    Index c = 0;
    for (; c + 2 <= C; c += 2) {
        mix_rows_twice(weights[c], weights[c + 1], rows, first, out[c].part(0, length), out[c + 1].part(0, length));
    }
    if (c < C) mix_rows(weights[c], rows, first, out[c].part(0, length));
}

}  // namespace safespot
