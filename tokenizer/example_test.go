package tokenizer_test

import (
	"fmt"
	"log"

	"tokitai/tokenizer"
)

func Example() {
	t, err := tokenizer.Open("testdata/llama3.json")
	if err != nil {
		log.Fatal(err)
	}
	ids, err := t.Encode("it's 2026", tokenizer.EncodeOptions{})
	if err != nil {
		log.Fatal(err)
	}
	text, err := t.Decode(ids, tokenizer.DecodeOptions{SkipSpecial: true})
	fmt.Println(ids, text, err)
	// Output: [330 72 83 323 220 17 15 17 21] it's 2026 <nil>
}

func ExampleTokenizer_NewStream() {
	t, err := tokenizer.Open("testdata/llama3.json")
	if err != nil {
		log.Fatal(err)
	}
	ids, err := t.Encode("a 😀!", tokenizer.EncodeOptions{NoSpecial: true})
	if err != nil {
		log.Fatal(err)
	}
	s := t.NewStream(tokenizer.DecodeOptions{})
	for _, id := range ids {
		part, err := s.Next(id)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%q ", part)
	}
	fmt.Printf("%q\n", s.End())
	// Output: "a" " " "" "" "" "😀" "!" ""
}
