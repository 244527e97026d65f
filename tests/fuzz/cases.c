/* Damaged files: the reader, the content, the bytes of zero that follow, and the end of the
   message. */
#include "tests/fuzz/fuzz.h"
#include <string.h>

#define TEXT(text) .content = text, .size = sizeof text - 1
#define LOG        "step,seconds,tokens,lr,train_loss,val_loss,grad_norm,tokens_per_second\n"
#define SIZED(row) "{\"a\":{\"dtype\":\"F32\",\"shape\":" row "}}"

const struct file_case file_cases[] = {
    {"safetensors", TEXT("[]"), 0, "its header does not start with {"},
    {"safetensors", TEXT("{\"a\":null}"), 0, "byte 5 of the header: expected {"},
    {"safetensors", TEXT("{\"a\\n\\u001b[31m\":{}}"), 0,
     "a??[31m: lacks its dtype, shape or data_offsets"},
    {"safetensors", TEXT("{\"a\":{\"dtype\":\"\",\"shape\":[1],\"data_offsets\":[0,4]}}"), 4,
     "a: is not F32, F64 or I64"},
    {"safetensors", TEXT("{\"metadata\":{\"total_size\":1},\"weight_map\":{\"a\":\"b\"}}"), 0,
     "metadata: has a member that is unknown or occurs twice"}, // Hugging Face's index of files
    {"safetensors", TEXT("{}"), 1, "bytes follow the last array"},
    {"safetensors", TEXT("{}\0\0"), 0, "its header continues after the last }"},
    {"safetensors", TEXT(SIZED("[1]")), 4, "a: lacks its dtype, shape or data_offsets"},
    {"safetensors", TEXT(SIZED("[1],\"shape\":[1],\"data_offsets\":[0,4]")), 4,
     "a: has a member that is unknown or occurs twice"},
    {"safetensors", TEXT("{\"__metadata__\":{},\"__metadata__\":{}}"), 0,
     "__metadata__ occurs twice"},
    {"safetensors", TEXT("{\"__metadata__\":{\"x\":\"1\",\"x\":\"1\"}}"), 0, "x: occurs twice"},
    {"safetensors", TEXT("{\"__metadata__\":{\"a\":\"b\""), 0,
     "byte 24 of the header: neither a comma nor the end of a list"},
    {"safetensors", TEXT(SIZED("[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]")), 4,
     "a: has more than 8 dimensions"},
    {"safetensors", TEXT(SIZED("[1],\"data_offsets\":[4]")), 4, "a: has only one offset"},
    {"safetensors", TEXT(SIZED("[1],\"data_offsets\":[4,0]")), 4,
     "a: does not start where the previous array ends"},
    {"safetensors", TEXT(SIZED("[2],\"data_offsets\":[0,4]")), 4,
     "a: has offsets that do not match its shape"},
    {"safetensors",
     TEXT(SIZED("[1],\"data_offsets\":[0,4]},"
                "\"b\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[4,3]")),
     4, "b: has offsets that do not match its shape"},
    {"safetensors",
     TEXT("{\"a\":{\"dtype\":\"F64\",\"shape\":[2147483648,1073741824],\"data_offsets\":[0,0]}}"),
     0, "a: is larger than any file"},
    {"safetensors", TEXT("{\"__metadata__\":{\"header_crc32\":\"00000000\""), 0,
     "its header was changed"},
    {"safetensors", TEXT("\x80\x02}q(X\x01   aqctorch._utils\n"), 0,
     "(scripts/load_pytorch.py FILE says what the file is)"},
    {"safetensors", TEXT("\xff\xff\xff\xff\xff\xff\xff\x7f"), 0,
     "its header would have more than 100000000 bytes"},
    {"safetensors", TEXT("\x01\0\0\0\0\0\0"), 0, "it is shorter than 8 bytes"},
    {"safetensors", TEXT("\x01\xe0\xf5\x05\0\0\0\0{}"), 0, "it is cut short"},
    {"safetensors", TEXT(SIZED("[1],\"data_offsets\":[0,4]")), 3, "it is cut short"},
    {"safetensors", TEXT(SIZED("[1000000000],\"data_offsets\":[0,4000000000]")), 4,
     "it is cut short"},
    {"safetensors",
     TEXT("{\"__metadata__\":{\"header_crc32\":\"b7977179\",\"step\":\"3\"},"
          "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}    "),
     4, NULL},
    {"safetensors",
     TEXT("{\"\\ud83d\\ude00\":{\"dtype\":\"F64\",\"shape\":[1,1],\"data_offsets\":[0,8]},"
          "\"i\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[8,16]},"
          "\"z\":{\"dtype\":\"F32\",\"shape\":[0,5],\"data_offsets\":[16,16]}}"),
     16, NULL},
    {"safetensors", TEXT("{\"b\":{\"dtype\":\"BF16\",\"shape\":[1],\"data_offsets\":[0,2]}}"), 2,
     "b: is not F32, F64 or I64 (scripts/load_pytorch.py FILE -o NEW converts it)"},

    {"formula", TEXT("gamma * (x - mean_n(x)) / rms_c(x - mean_n(x)) + beta"), 0, NULL},
    {"formula", TEXT("(gamma + a * tanh(sum_c(x * b))) * x ^ -1.5; a = C^2; b[1] = 0"), 0, NULL},
    {"formula", TEXT("max(x, -min(x, eps)) + sigmoid(stop(max_c(abs(x)))); groups"), 0, NULL},
    {"formula", TEXT("x * exp(x"), 0, "expected ) or an operator: after x * exp(x"},
    {"formula", TEXT("x ^ 1e999 + 1"), 0,
     "expected a number, such as 0.5: character 5, \"1e999 + 1\", of x ^ 1e999 + 1"},
    {"config", TEXT("norm = ln\nn-layer = 1\ndropout = 0\nbias = on\nmin-lr = auto\n"), 0, NULL},
    {"config", TEXT("[model]\r\nnorm = rms\r\n\r\n; note\r\n# note\r\n  n-embd=64\t\r\n"), 0, NULL},
    {"config", TEXT("corpus = \"a \\\"b\\\" \\\\ \\n c\"\ncorpus = plain text \"in\" it\n"), 0,
     NULL},
    {"config", TEXT("\xef\xbb\xbfnorm = ln\n"), 0, NULL},
    {"config", TEXT("n-layer = auto\n"), 0, "n-layer=auto: must be a whole number from 1 to 10000"},
    {"config", TEXT("norm = LN\n"), 0, "norm=LN: must be one of none|ln|"},
    {"config", TEXT("n-embd = 10\nn-head = 3\n"), 0, "must be a multiple of --n-head=3"},
    {"config", TEXT("min-lr = 1\n"), 0, "--min-lr=1: must be at most --learning-rate=0.001"},
    {"config", TEXT("seed = 9007199254740993\n"), 0,
     "seed=9007199254740993: must be a whole number"},
    {"config", TEXT("seed = 9223372036854775808\n"), 0,
     "seed=9223372036854775808: must be a whole number"},
    {"config", TEXT("n-layer = 0.4e1\n"), 0, NULL},
    {"config", TEXT("learning-rate = inf\n"), 0,
     "learning-rate=inf: must be a number from 0 to 1000"},
    {"config", TEXT("weight-decay = 1e-999\n"), 0, "weight-decay=1e-999: must be a number"},
    {"config", TEXT("corpus =\n"), 0, "corpus: must not be empty"},
    {"config", TEXT("= 3\n"), 0, "must be \"name = value\""},
    {"config", TEXT("a-name-of-more-characters-than-any-option-has-so-that-none-is-near = 3\n"), 0,
     ": no such option (--help=all lists them)"},

    {"corpus", TEXT("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80 a"), 0, NULL},
    {"corpus", TEXT("\xef\xbb\xbf"), 0, NULL},
    {"corpus", TEXT("ab\xc3"), 0, "input: not UTF-8 at byte 2, 0xc3"},
    {"corpus", TEXT("a\0b"), 0, "input: a NUL byte at byte 1"},

    {"items", TEXT("\r\n\n emma\r\n\t\r\nava"), 0, NULL},
    {"items", TEXT("\xef\xbb\xbf"), 0, "input: has no items, only blank lines"},
    {"items", TEXT("\n\n  \n\t\r\n"), 0, "input: has no items, only blank lines"},
    {"items", TEXT("\xff\n"), 0, "input: not UTF-8 at byte 0, 0xff"},

    {"vocabulary", TEXT("0 55295 57344 1114111"), 0, NULL},
    {"vocabulary", TEXT("2 1"), 0, NULL}, // which is none, and nothing to refuse

    {"log", TEXT(LOG "0,1.000,2,0.001,2.5,,1.25,\n1,2.0"), 0, NULL},
    {"log", TEXT(LOG), 0, NULL},
    {"log", TEXT(LOG "x\n"), 0, "log.csv:2: is not a row of a run's log"},
    {"log", TEXT(LOG "1,-5,\n"), 0, "log.csv:2: is not a row of a run's log"},
    {"log", TEXT(LOG "99999999999999999999999,1,\n"), 0, NULL},
    {"log", TEXT("step,seconds,tokens,lr"), 0, NULL},
    {"log", TEXT("\0\0step,seconds"), 0, "log.csv:1: is not a row of a run's log"},
    {.reader = NULL},
};

void file_case_write(const struct file_case *one, FILE *file) {
    bool json = *one->content == '{' || *one->content == '[';
    bool framed = json && !strcmp(one->reader, "safetensors");
    for (int byte = 0; framed && byte < 8; byte++) putc((int)(one->size >> 8 * byte & 255), file);
    fwrite(one->content, 1, one->size, file);
    for (size_t i = 0; i < one->zeros; i++) putc(0, file);
}
