// Checks that a kernel takes what a launch gives it. A failure names count or argument with
// its numbers in the compiler's message, from which the program makes its own.
namespace tokitai_launch {

template <class E> struct data {}; // a pointer to elements of type E
struct memory {};                  // a pointer to anything

template <class A, class B> struct same { static const bool value = false; };
template <class A> struct same<A, A> { static const bool value = true; };
template <class A> struct plain { typedef A type; };
template <class A> struct plain<const A> { typedef A type; };
template <class A> struct plain<volatile A> { typedef A type; };
template <class A> struct plain<const volatile A> { typedef A type; };

template <class A> struct is_float { static const bool value = same<A, float>::value || same<A, double>::value; };

// Kernels may read elements as patterns, in vectors, or as bytes.
template <class P, class E, bool IsClass = __is_class(P)> struct reads {
    static const bool value = sizeof(P) == 1 || (sizeof(P) == sizeof(E) && !(same<E, int>::value && is_float<P>::value));
};
template <class P, class E> struct reads<P, E, true> {
    static const bool value = same<P, E>::value || (sizeof(P) % sizeof(E) == 0 && !(sizeof(P) == sizeof(E) && __is_class(E)));
};
template <class E> struct reads<void, E, false> { static const bool value = true; };

template <class Takes, class Gives> struct fits {
    static const bool value = sizeof(Takes) == sizeof(Gives) && !__is_class(Takes) && is_float<Takes>::value == is_float<Gives>::value;
};
template <class P, class Gives> struct fits<P*, Gives> { static const bool value = false; };
template <class P> struct fits<P*, memory> { static const bool value = true; };
template <class P, class E> struct fits<P*, data<E>> { static const bool value = reads<typename plain<P>::type, E>::value; };
template <class Takes, class E> struct fits<Takes, data<E>> { static const bool value = false; };
template <class Takes> struct fits<Takes, memory> { static const bool value = false; };

template <int Position, class Takes, class Gives> struct argument {
    static_assert(fits<typename plain<Takes>::type, Gives>::value, "the kernel takes another argument than the launch gives");
    static const bool value = true;
};
template <int Takes, int Gives> struct count {
    static_assert(Takes == Gives, "the kernel takes another number of arguments than the launch gives");
    static const bool value = true;
};

template <class... A> struct list {};
template <int Position, class Takes, class Gives> struct all { static const bool value = true; };
template <int Position, class A, class... As, class G, class... Gs> struct all<Position, list<A, As...>, list<G, Gs...>> {
    static const bool value = argument<Position, A, G>::value && all<Position + 1, list<As...>, list<Gs...>>::value;
};

template <class Kernel, class Gives> struct launch;
template <class... A, class... G> struct launch<void (*)(A...), list<G...>> {
    static const bool value = count<(int)sizeof...(A), (int)sizeof...(G)>::value && all<1, list<A...>, list<G...>>::value;
};

} // namespace tokitai_launch
