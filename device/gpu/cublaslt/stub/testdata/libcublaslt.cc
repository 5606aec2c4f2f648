// What is used of libcublasLt, with the host as the device. Each function checks its
// arguments and answers code 7 (invalid value) where they are not what the caller must
// give. It divides sums of SPLIT_DEPTH products or more into two parts, and has no
// algorithm for matrices that are not aligned to their elements, nor for more than
// MAX_BATCH products. Algorithm 66 rounds a product to the result's format before it adds the
// old result.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#define API extern "C" int
#define VERSION 130100
#define SPLIT_DEPTH 512
#define MAX_BATCH 65535
#define CREATE 0
#define CANDIDATES 3
typedef uint64_t u64;

enum { OK = 0, INVALID = 7, NOT_SUPPORTED = 15 };
static void* const the_handle = (void*)0x7700;
static int live; // descriptors

struct Layout { int magic, type, batch; u64 rows, cols; int64_t ld, stride; };
struct Product { int magic, compute, scale, transpose_a, transpose_b; };
struct Preference { int magic; u64 workspace; uint32_t reductions, alignment[4]; };
struct Algorithm { u64 id, parts, workspace, rest[5]; };
struct Result { Algorithm algorithm; size_t workspace; int state; float waves; int reserved[4]; };
static_assert(sizeof(Algorithm) == 64 && sizeof(Result) == 96, "as in cublasLt.h");

extern "C" size_t cublasLtGetVersion() { return VERSION; }
extern "C" const char* cublasLtGetStatusName(int s) { return s == NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED" : s == INVALID ? "CUBLAS_STATUS_INVALID_VALUE" : "CUBLAS_STATUS_OTHER"; }
extern "C" const char* cublasLtGetStatusString(int) { return "the stub refused"; }
extern "C" int stub_live() { return live; }

API cublasLtCreate(void** h) { *h = the_handle; live++; return CREATE; }
API cublasLtDestroy(void* h) { live--; return h == the_handle ? OK : INVALID; }

API cublasLtMatmulDescCreate(Product** p, int compute, int scale) {
	if (compute != 68 || scale != 0) return INVALID;
	*p = new Product{1, compute, scale, 0, 0};
	live++;
	return OK;
}
API cublasLtMatmulDescSetAttribute(Product* p, int which, const int32_t* value, size_t bytes) {
	if (p->magic != 1 || bytes != 4 || (*value != 0 && *value != 1)) return INVALID;
	switch (which) {
	case 3: p->transpose_a = *value; return OK;
	case 4: p->transpose_b = *value; return OK;
	}
	return INVALID;
}
API cublasLtMatmulDescDestroy(Product* p) { if (p->magic != 1) return INVALID; p->magic = 0; delete p; live--; return OK; }

API cublasLtMatrixLayoutCreate(Layout** l, int type, u64 rows, u64 cols, int64_t ld) {
	if ((type != 0 && type != 2 && type != 14) || !rows || !cols || ld < (int64_t)rows) return INVALID;
	*l = new Layout{2, type, 1, rows, cols, ld, 0};
	live++;
	return OK;
}
API cublasLtMatrixLayoutSetAttribute(Layout* l, int which, const void* value, size_t bytes) {
	if (l->magic != 2) return INVALID;
	if (which == 5 && bytes == 4) { memcpy(&l->batch, value, 4); return l->batch < 1 ? INVALID : OK; }
	if (which == 6 && bytes == 8) { memcpy(&l->stride, value, 8); return OK; }
	return INVALID;
}
API cublasLtMatrixLayoutDestroy(Layout* l) { if (l->magic != 2) return INVALID; l->magic = 0; delete l; live--; return OK; }

API cublasLtMatmulPreferenceCreate(Preference** p) { *p = new Preference{3, 0, 7, {256, 256, 256, 256}}; live++; return OK; }
API cublasLtMatmulPreferenceSetAttribute(Preference* p, int which, const void* value, size_t bytes) {
	if (p->magic != 3) return INVALID;
	if (which == 1 && bytes == 8) { memcpy(&p->workspace, value, 8); return OK; }
	if (which == 3 && bytes == 4) { memcpy(&p->reductions, value, 4); return OK; }
	if (which >= 5 && which <= 8 && bytes == 4) { memcpy(&p->alignment[which - 5], value, 4); return OK; }
	return INVALID;
}
API cublasLtMatmulPreferenceDestroy(Preference* p) { if (p->magic != 3) return INVALID; p->magic = 0; delete p; live--; return OK; }

static int size_of(int type) { return type == 0 ? 4 : 2; }
static bool fits(const Product* p, const Layout* a, const Layout* b, const Layout* c, const Layout* d) {
	if (p->magic != 1 || a->magic != 2 || b->magic != 2 || c->magic != 2 || d->magic != 2) return false;
	u64 m = p->transpose_a ? a->cols : a->rows, k = p->transpose_a ? a->rows : a->cols;
	u64 n = p->transpose_b ? b->rows : b->cols, kb = p->transpose_b ? b->cols : b->rows;
	return k == kb && d->rows == m && d->cols == n && c->rows == m && c->cols == n && a->type == b->type && c->type == d->type &&
		(d->type == a->type || d->type == 0) && a->batch == b->batch && a->batch == d->batch;
}
API cublasLtMatmulAlgoGetHeuristic(void* h, Product* p, Layout* a, Layout* b, Layout* c, Layout* d, Preference* f, int wanted, Result* r, int* count) {
	if (h != the_handle || wanted < 1 || f->magic != 3 || f->reductions != 2 || f->workspace != 32u << 20 || !fits(p, a, b, c, d)) return INVALID;
	const Layout* of[] = {a, b, c, d};
	for (int i = 0; i < 4; i++)
		if (f->alignment[i] % size_of(of[i]->type) || of[i]->batch > MAX_BATCH) { *count = 0; return NOT_SUPPORTED; }
	u64 k = p->transpose_a ? a->rows : a->cols;
	u64 parts = k >= SPLIT_DEPTH ? 2 : 1;
	u64 id = f->alignment[0] >= 16 && f->alignment[1] >= 16 && f->alignment[2] >= 16 && f->alignment[3] >= 16 ? 66 : 21;
	const u64 ids[] = {id, id + 1, 24};
	*count = 0;
	for (int i = 0; i < CANDIDATES && i < wanted; i++) // the second one has failed
		r[(*count)++] = Result{{ids[i], parts, parts > 1 ? 4096u : 0u, {}}, parts > 1 ? 4096u : 0u, i == 1 ? NOT_SUPPORTED : OK, 1.0f, {}};
	return OK;
}
API cublasLtMatmulAlgoConfigGetAttribute(const Algorithm* a, int which, void* value, size_t bytes, size_t* written) {
	const int values[] = {(int)a->id, 23, (int)a->parts, a->parts > 1 ? 2 : 0, 0, 0, 36, 0, 3};
	if (which < 0 || which > 8 || bytes != (which >= 7 ? 2u : 4u)) return INVALID;
	memcpy(value, &values[which], bytes);
	*written = bytes;
	return OK;
}

static float load(int type, const void* p, int64_t i) {
	if (type == 0) return ((const float*)p)[i];
	uint16_t x = ((const uint16_t*)p)[i];
	if (type == 14) { uint32_t bits = (uint32_t)x << 16; float f; memcpy(&f, &bits, 4); return f; }
	int e = x >> 10 & 31, m = x & 1023;
	float f = e == 0 ? ldexpf((float)m, -24) : e == 31 ? (m ? NAN : INFINITY) : ldexpf((float)(m + 1024), e - 25);
	return x >> 15 ? -f : f;
}
static void store(int type, void* p, int64_t i, float f) {
	if (type == 0) { ((float*)p)[i] = f; return; }
	uint32_t bits;
	memcpy(&bits, &f, 4);
	uint16_t x;
	if (type == 14) {
		x = f != f ? 0x7fc0 : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
	} else {
		float a = fabsf(f);
		if (f != f) x = 0x7e00;
		else if (a >= 65520) x = 0x7c00;
		else {
			int e;
			frexpf(a, &e);
			int step = (e - 11 < -24 ? -24 : e - 11); // of the result's last place
			float n = nearbyintf(ldexpf(a, -step));
			float v = ldexpf(n, step);
			if (v < 6.103515625e-05f) x = (uint16_t)ldexpf(v, 24);
			else { frexpf(v, &e); x = (uint16_t)(((e + 14) << 10) + ((int)ldexpf(v, 11 - e) - 1024)); }
		}
		x |= bits >> 31 << 15;
	}
	((uint16_t*)p)[i] = x;
}

API cublasLtMatmul(void* h, Product* p, const float* alpha, const void* A, Layout* a, const void* B, Layout* b, const float* beta,
	const void* C, Layout* c, void* D, Layout* d, const Algorithm* algorithm, char* workspace, size_t workspace_bytes, void* stream) {
	if (h != the_handle || !fits(p, a, b, c, d) || *alpha != 1 || (*beta != 0 && *beta != 1) || C != D || !stream) return INVALID;
	if (workspace_bytes != algorithm->workspace || (workspace_bytes && (!workspace || (u64)workspace % 256))) return INVALID;
	if (workspace_bytes) memset(workspace, 0xee, workspace_bytes);
	if (algorithm->id == 66 && ((u64)A | (u64)B | (u64)D) % 16) return INVALID;
	int64_t k = p->transpose_a ? a->rows : a->cols;
	for (int64_t z = 0; z < d->batch; z++)
		for (u64 j = 0; j < d->cols; j++)
			for (u64 i = 0; i < d->rows; i++) {
				float sum = 0;
				for (u64 part = 0; part < algorithm->parts; part++) {
					float s = 0;
					for (int64_t t = k * part / algorithm->parts; t < (int64_t)(k * (part + 1) / algorithm->parts); t++) {
						float x = load(a->type, A, z * a->stride + (p->transpose_a ? i * a->ld + t : t * a->ld + i));
						float y = load(b->type, B, z * b->stride + (p->transpose_b ? t * b->ld + j : j * b->ld + t));
						s = fmaf(x, y, s);
					}
					sum = part ? sum + s : s;
				}
				int64_t at = z * d->stride + j * d->ld + i;
				if (*beta && algorithm->id == 66) { // as Hopper's algorithms do
					uint32_t rounded;
					store(d->type, &rounded, 0, sum);
					sum = load(d->type, &rounded, 0);
				}
				if (*beta) sum += load(d->type, D, at);
				store(d->type, D, at, sum);
			}
	return OK;
}
