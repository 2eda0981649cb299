"""Forms of residue that real models leave, and human captions that stay as they are."""

import pytest

from xmcap.scoring import residue

_FORMS = [kind for kind in residue.KINDS if kind not in ("prefix", "suffix")]

_LEFT = {
  "think": [
    "<think>\n\n</think>\n\na dog",  # Qwen3 without thinking
    "I see a dog on sand.</think>\n\na dog",  # DeepSeek-R1, whose template opens the block
    "<thinking>A dog?</thinking>a dog",
    "\u25c1think\u25b7hm\u25c1/think\u25b7a dog",  # Kimi-VL
    "[THINK]hm[/THINK]a dog",  # Magistral
    "<think>hm</think><answer>a dog</answer>",
    "a dog<think>hm</think>",
    "<|channel|>analysis<|message|>Hm.<|end|>a dog",  # gpt-oss
  ],
  "tokens": [
    "a dog<|im_end|>\n<|im_start|>user\nAnd now?<|im_end|>",  # Qwen-VL, InternVL
    "<|im_start|>user\nDescribe it.<|im_end|>\n<|im_start|>assistant\na dog<|im_end|>",
    "<bos><start_of_turn>model\na dog<end_of_turn><eos><pad><pad>",  # Gemma
    "<s>[INST] <<SYS>>\nBe nice.\n<</SYS>>\n\nDescribe. [/INST] a dog </s>",  # LLaVA with Llama 2
    "<|start_header_id|>assistant<|end_header_id|>\n\na dog<|eot_id|>",  # Llama 3
    "<|start|>assistant<|channel|>final<|message|>a dog<|return|>",
    "<\uff5cbegin\u2581of\u2581sentence\uff5c>a dog<\uff5cend\u2581of\u2581sentence\uff5c>",  # DeepSeek-VL
    "<image>\na dog<end_of_utterance>",  # SmolVLM, Idefics
    "<row_1_col_2><fake_token_around_image>a dog",
    "<IMG_CONTEXT>a dog",
    "<extra_id_0> a dog",  # T5
    "<unused99>a dog",
    "[IMG_END]a dog",  # Pixtral
    "a<0x20>dog<0x0A>",
  ],
  "loc": [
    "<loc0012><loc0345><loc0678><loc0901> a dog",  # PaliGemma
    "a dog<loc_12><loc_345><loc_6><loc_999>",  # Florence-2
    "<seg001><seg127>a dog",
    "<ref>a dog</ref><box>(12,34),(56,78)</box>",  # Qwen-VL
    "<|object_ref_start|>a dog<|object_ref_end|><|box_start|>(1,2),(3,4)<|box_end|>",
    "<ref>a dog</ref><box>[[12,34,56,78]]</box>",  # InternVL
    "a dog [[012,345,678,901]]",  # CogVLM
    "<grounding><phrase>a dog</phrase><object><patch_index_0044><patch_index_0863></object>",  # Kosmos-2
    '<point x="10.5" y="20.1" alt="dog">a dog</point>',  # Molmo
    "<|ref|>a dog<|/ref|><|det|>[[1, 2, 3, 4]]<|/det|>",  # DeepSeek-VL2
  ],
  "json": [
    '{"caption": "a dog"}',
    '```json\n{"score": 1, "caption": "a dog"}\n```',
    '["a dog", "a puppy"]',
    "['a dog']",
    '{"en": {"text": "a dog"}}',
    '[{"bbox_2d": [1, 2, 3, 4], "label": "a dog"}]',
    '{"caption": "a dog',
    'Here it is:\n{"caption": "a dog"}',
  ],
  "html": [
    "<b>a dog</b>", "<p>a dog</p>", '<span class="x">a dog</span>', "<caption>a dog</caption>", "<!-- - -->a dog",
  ],
  "latex": ["\\boxed{a dog}", "The answer is $\\boxed{\\text{a dog}}$.", "\\text{a dog}"],
  "markdown": [
    "**a dog**", "__a dog__", "*a dog*", "_a dog_", "## a dog", "- a dog", "\u2022 a dog", "`a dog`", "> a dog",
    "```\na dog\n```", "[a dog](https://a.dog)", "![a dog](dog.png)", "**a dog",
  ],
  "lines": ["a dog\na puppy", "Captions:\n\na dog\n\na puppy", "a dog\r\na puppy", "a dog\u2028a puppy"],
}  # fmt: skip

_HUMAN = [
  "I <3 You", "# 8 for Iowa State", "1. FC K\u00f6ln", "2 * 3 = 6", "5 < 6 > 4", "AT&T", "A&M;", "[NAME] smiles",
  "$5 and $6", "{dog}", "***", "**", "* *", "-5 degrees", "#1 fan", "[1]", "{1,2}", "\u00af\\_(\u30c4)_/\u00af", ">_<",
  "<3", "<<>>", "a_b_c", "a dog\n", "\n a dog", "  a  dog  ", "", " ", "...", "\U0001f436", '"a dog"',
  "p.s. > q", "a dog *",
]  # fmt: skip


@pytest.mark.parametrize(
  ("kind", "caption"), [(kind, left) for kind, all_left in _LEFT.items() for left in all_left]
)
def test_residue_is_classified_and_removed(kind, caption):
  found = residue.clean([caption], [], _FORMS)
  assert found.captions == ["a dog"]
  assert kind in found.rows
  assert residue.clean(found.captions, [], _FORMS).rows == {}


@pytest.mark.parametrize("caption", _HUMAN)
def test_clean_keeps_human_captions_byte_for_byte(caption):
  found = residue.clean([caption], [], _FORMS)
  assert found.captions == [caption] and not found.rows


def test_clean_removes_only_the_chosen_kinds():
  caption = "<think>hm</think>**a dog**</s>"
  assert residue.clean([caption], [], ["think"]).captions == ["**a dog**</s>"]
  assert residue.clean([caption], [], ["tokens"]).captions == ["<think>hm</think>**a dog**"]
  assert residue.clean([caption], [], ["markdown"]).captions == ["<think>hm</think>a dog</s>"]


def test_unclosed_think_tag_leaves_an_empty_caption():
  found = residue.clean(["<think>a dog, or is it", "a dog"], [])
  assert found.captions == ["", "a dog"] and found.emptied == 1


@pytest.mark.parametrize(
  "unit",
  [
    "<think>",
    "</think>",
    "<box>",
    "**",
    "[[1,",
    '{"a": ',
    "<!--",
    "<a b ",
    "\\boxed{",
    "*a ",
    "_a ",
    "\\",
    "&#",
    "Ã©",
    "Ġa",
    " ##a",
    "u00",
  ],
)
def test_long_captions_take_no_quadratic_time(unit):
  # Letters that a wrong encoding made are decoded one by one.
  caption = unit * ((10_000 if unit == "Ã©" else 100_000) // len(unit))
  residue.clean([caption], [], _FORMS)  # minutes otherwise
