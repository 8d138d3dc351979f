/* SPDX-License-Identifier: MIT */
#include "service/request.h"

const char *operation_to_string(uint8_t op) {
        switch (op) {
        case OPERATION_READ:
                return "read";
        case OPERATION_WRITE:
                return "write";
        case OPERATION_FLUSH:
                return "flush";
        case OPERATION_DISCARD:
                return "discard";
        case OPERATION_WRITE_ZEROES:
                return "write_zeroes";
        case OPERATION_RESIZE:
                return "resize";
        }
        return NULL;
}

int request_error(int64_t error) {
        switch (-error) {
        case EAGAIN:
        case EBUSY:
        case ENOMEM:
        case EREMCHG:
                return -EIO;
        }
        return error < 0 && error >= -4095 ? (int) error : -EIO;
}
